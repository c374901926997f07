// The grammar that a sequence follows, as far as its known tokens.
#pragma once

#include <tenon/types.h>

#include <memory>
#include <optional>
#include <span>

#include "core/base/result.h"
#include "core/grammar/matcher.h"

namespace tenon {

struct EndRules;

// A copy goes its own way, as forks do.
class FollowedGrammar {
 public:
  // None: everything is allowed, and nothing ends.
  FollowedGrammar() = default;
  explicit FollowedGrammar(grammar::Matcher matcher, bool model_has_ends)
      : matcher_(std::move(matcher)), model_has_ends_(model_has_ends) {}

  // Whether there is one.
  bool binds() const { return matcher_.has_value(); }
  // The one that there is. Only where it binds.
  grammar::Matcher& matcher() { return *matcher_; }
  // How many of these drafts, one after the other, it allows.
  uint32_t legal_drafts(std::span<const TokenId> drafts);
  // Of drafts that form a tree, moves those that it allows to the front, in their order, and says
  // how many they are. What follows one that it does not allow is left out with it.
  uint32_t keep_legal(std::span<TokenId> drafts, std::span<int32_t> parents);
  // What may come after drafts, into `mask` of [ceil(vocabulary/64)]. False: it does not allow the
  // drafts, or leaves nothing after them. Only where it binds.
  bool allow_after(std::span<const TokenId> drafts, const EndRules& rules,
                   std::span<uint64_t> mask);
  // Hears of a token that was drawn. Error: it does not allow that.
  Status follow(TokenId token);
  // The answer is whole, nothing may follow it, and the model has no token that says so.
  bool ends() const { return binds() && !model_has_ends_ && matcher_->is_finished(); }

 private:
  // Follows drafts as far as it allows them, and says how many; the matcher is to be rolled back by
  // as many. Only where it binds.
  uint32_t take(std::span<const TokenId> drafts);

  std::optional<grammar::Matcher> matcher_;
  bool model_has_ends_ = true;  // tokens that end an answer of the request
};

}  // namespace tenon
