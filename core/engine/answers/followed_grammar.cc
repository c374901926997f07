#include "core/engine/answers/followed_grammar.h"

#include <string>

namespace tenon {

uint32_t FollowedGrammar::legal_drafts(std::span<const TokenId> drafts) {
  if (!binds()) return static_cast<uint32_t>(drafts.size());
  uint32_t taken = 0;
  while (taken < drafts.size() && matcher_->accept(drafts[taken])) ++taken;
  matcher_->rollback(taken);
  return taken;
}

Status FollowedGrammar::follow(TokenId token) {
  // After an end nothing counts any more.
  if (!binds() || matcher_->has_ended() || matcher_->accept(token)) return {};
  return internal("token " + std::to_string(token) +
                  " was drawn, which the grammar does not allow");
}

}  // namespace tenon
