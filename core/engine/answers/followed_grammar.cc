#include "core/engine/answers/followed_grammar.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/engine/answers/permitted.h"

namespace tenon {

uint32_t FollowedGrammar::take(std::span<const TokenId> drafts) {
  uint32_t taken = 0;
  while (taken < drafts.size() && matcher_->accept(drafts[taken])) ++taken;
  return taken;
}

uint32_t FollowedGrammar::legal_drafts(std::span<const TokenId> drafts) {
  if (!binds()) return static_cast<uint32_t>(drafts.size());
  const uint32_t taken = take(drafts);
  matcher_->rollback(taken);
  return taken;
}

uint32_t FollowedGrammar::keep_legal(std::span<TokenId> drafts, std::span<int32_t> parents) {
  if (!binds()) return static_cast<uint32_t>(drafts.size());
  std::vector<int32_t> place(drafts.size(), -1);  // among those that are kept; -1: it is not
  std::vector<TokenId> way;                       // from what is known to the draft
  uint32_t kept = 0;
  for (size_t i = 0; i < drafts.size(); ++i) {
    const int32_t before = parents[i];
    const int32_t parent = before < 0 ? -1 : place[static_cast<size_t>(before)];
    if (before >= 0 && parent < 0) continue;
    way.assign(1, drafts[i]);
    for (int32_t at = parent; at >= 0; at = parents[static_cast<size_t>(at)]) {
      way.push_back(drafts[static_cast<size_t>(at)]);
    }
    std::ranges::reverse(way);
    if (legal_drafts(way) < way.size()) continue;
    // Never after what is still to be looked at.
    drafts[kept] = drafts[i];
    parents[kept] = parent;
    place[i] = static_cast<int32_t>(kept++);
  }
  return kept;
}

bool FollowedGrammar::allow_after(std::span<const TokenId> drafts, const EndRules& rules,
                                  std::span<uint64_t> mask) {
  const uint32_t taken = take(drafts);
  const bool goes_on = taken == drafts.size() && !matcher_->has_ended();
  const bool some = goes_on && fill_allowed(*matcher_, rules, mask).ok() && !is_empty(mask);
  matcher_->rollback(taken);
  return some;
}

Status FollowedGrammar::follow(TokenId token) {
  // After an end nothing counts any more.
  if (!binds() || matcher_->has_ended() || matcher_->accept(token)) return {};
  return internal("token " + std::to_string(token) +
                  " was drawn, which the grammar does not allow");
}

}  // namespace tenon
