// What all parts of a pipeline can agree on, before any of them is created. The vocabulary is in
// <tenon/facts.h>.
//
// For each key, everyone who says something about it, as ability or as need, narrows what is
// possible. A key with nothing left refuses the pipeline; so does a need about which nobody offers
// anything, and a value that `all_of` asks for and that is not possible for someone. One key
// differs: numerics.rows becomes the weakest that anyone offers.
#pragma once

#include <tenon/facts.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/origin.h"
#include "core/base/result.h"

namespace tenon {

// A part of the pipeline. A setting that narrows a fact by itself is a participant with the role
// "config" and the setting as its name ("kv_cache.block_tokens").
struct Participant {
  std::string role;  // "kv_cache"
  std::string name;  // "prefix"
  Origin origin;     // where it was configured
  std::vector<Fact> provides;
  std::vector<Fact> requirements;
  // A setting: how to write that it wants nothing ("executor.deterministic = false"). Empty: its
  // value is the fact's.
  std::string without = {};
};

// Taken when it is allowed; earlier ones first.
struct FactPreference {
  std::string key;
  std::string word;  // empty for numbers
  int64_t number = 0;
};

struct NegotiationRequest {
  std::vector<Participant> participants;
  int64_t context_tokens = 0;
  std::vector<FactPreference> preferences;
  // What else could be chosen, each in place of the participant of the same role. Asked only when
  // something does not fit, to say what to try. May be empty.
  std::function<std::vector<Participant>()> alternatives;
};

// The outcome. Stays where it is: what `facts` returns points into it.
class ResolvedFacts {
 public:
  struct Saying {
    std::string who;    // "attention paged"
    std::string what;   // "multiple of 16"
    std::string where;  // "pipeline.toml:14:1"; empty when not configured anywhere
  };
  struct Row {
    std::string key;
    std::string chosen;
    std::vector<Saying> sayings;
  };

  ResolvedFacts() = default;
  ResolvedFacts(ResolvedFacts&&) = default;
  ResolvedFacts& operator=(ResolvedFacts&&) = default;
  ResolvedFacts(const ResolvedFacts&) = delete;
  ResolvedFacts& operator=(const ResolvedFacts&) = delete;

  PipelineFacts facts() const { return {facts_.data(), static_cast<uint32_t>(facts_.size())}; }
  const ResolvedFact* find(std::string_view key) const { return facts().find(key); }
  const std::vector<Row>& rows() const { return rows_; }  // sorted by key
  // What only instances could tell of a key that becomes the weakest: it is `word`, because of
  // `saying`. Pointers to facts stay good; take `facts()` anew.
  void lower(std::string_view key, std::string_view word, Saying saying);
  // The rows as aligned text, for people.
  std::string table() const;

 private:
  friend Result<ResolvedFacts> negotiate(const NegotiationRequest& request);
  std::deque<std::string> texts_;
  std::vector<ResolvedFact> facts_;
  std::vector<Row> rows_;
};

// The error lists every key that does not work out: who said what, where it was configured, and
// which single changes would help.
Result<ResolvedFacts> negotiate(const NegotiationRequest& request);

// The number of keys about which these participants cannot agree, without the work of explaining.
size_t conflicts(const std::vector<Participant>& participants, int64_t context_tokens);

}  // namespace tenon
