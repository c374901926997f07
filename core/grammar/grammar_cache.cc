#include "core/grammar/grammar_cache.h"

#include <algorithm>

namespace tenon::grammar {

Result<std::shared_ptr<const Grammar>> GrammarCache::get(const GrammarSpec& spec) {
  const auto find = [&] {
    return std::find_if(kept_.begin(), kept_.end(),
                        [&](const auto& grammar) { return grammar->spec() == spec; });
  };
  {
    const std::lock_guard lock(mutex_);
    const auto found = find();
    if (found != kept_.end()) {
      std::rotate(found, found + 1, kept_.end());
      return kept_.back();
    }
  }
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const Grammar> made, compile(spec));
  const std::lock_guard lock(mutex_);
  const auto found = find();  // another thread may have been faster
  if (found != kept_.end()) return *found;
  if (kept_.size() >= most_) kept_.erase(kept_.begin());
  kept_.push_back(made);
  return made;
}

}  // namespace tenon::grammar
