#include "core/engine/requests/grammars.h"

#include <algorithm>
#include <string>

namespace tenon {

Result<std::shared_ptr<grammar::Runtime>> Grammars::runtime_of(
    const std::shared_ptr<const grammar::Grammar>& grammar) {
  if (!vocabulary_) {
    return unsupported(
        "a grammar was asked for, but nothing says what text the tokens stand for – the model "
        "needs a tokenizer – put its tokenizer.json into the model's folder");
  }
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<const grammar::Vocabulary> vocabulary,
                         vocabulary_());
  if (vocabulary->size() != size_) {
    return internal("the vocabulary of grammars has " + std::to_string(vocabulary->size()) +
                    " tokens – the model's has " + std::to_string(size_));
  }
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(runtimes_.begin(), runtimes_.end(), [&](const auto& runtime) {
    return &runtime->grammar() == grammar.get();
  });
  if (found != runtimes_.end()) {
    std::rotate(found, found + 1, runtimes_.end());
    return runtimes_.back();
  }
  runtimes_.push_back(std::make_shared<grammar::Runtime>(grammar, vocabulary));
  std::shared_ptr<grammar::Runtime> made = runtimes_.back();
  size_t unused = 0;
  for (size_t i = runtimes_.size(); i-- > 0;) {
    if (runtimes_[i].use_count() > 1 || ++unused <= kKept) continue;
    runtimes_.erase(runtimes_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return made;
}

}  // namespace tenon
