// Follows one answer through a grammar: which tokens may come next, and what became of them.
//
// A copy goes its own way and costs little (forks, beams). Any thread may use a matcher, one at a
// time; matchers of the same grammar may be used at the same time.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/grammar.h"
#include "core/grammar/matching/runtime.h"
#include "core/grammar/vocabulary.h"

namespace tenon::grammar {

class Matcher {
 public:
  // Tokens that can be taken back at least.
  static constexpr size_t kRollback = 1024;

  // Before the first token. The ends are tokens that end an answer: they are allowed where the
  // whole text satisfies the grammar, and nothing follows them.
  Matcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const Vocabulary> vocabulary,
          std::vector<TokenId> ends);
  // Of the same runtime, which keeps what it has found out for others with the same grammar.
  Matcher(std::shared_ptr<Runtime> runtime, std::vector<TokenId> ends);

  // Takes one more token. False: it is not allowed here, and nothing has changed.
  bool accept(TokenId token);
  // Takes the last `tokens` back, at most kRollback of those accepted.
  void rollback(size_t tokens);
  // Tokens that were accepted and not taken back.
  uint64_t length() const { return length_; }

  // The allowed tokens, one bit each, low bits first: [ceil(vocabulary/64)]. All zero: the text so
  // far can be completed, but not with the tokens there are. Error: failed (too many readings).
  Status fill_mask(std::span<uint64_t> mask);

  // An end was accepted.
  bool has_ended() const { return ended_at_ > 0; }
  // The text so far satisfies the grammar.
  bool accepts() const;
  // … and nothing but an end may follow, or an end was accepted.
  bool is_finished() const;

 private:
  struct Ends {
    std::vector<TokenId> tokens;  // sorted
  };
  ConfigId here() const { return trail_.back(); }
  void catch_up();
  void append(ConfigId config, bool ends);

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<const Ends> ends_;
  std::shared_ptr<Findings> findings_;
  std::vector<ConfigId> trail_;  // after each of the last tokens, and the one before them
  uint64_t length_ = 0;
  uint64_t ended_at_ = 0;  // length after the end that was accepted; 0 = none was
};

}  // namespace tenon::grammar
