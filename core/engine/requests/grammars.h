// The grammars that requests follow here, each at work on the pipeline's vocabulary. Requests with
// the same grammar share what was found out about it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/matching/runtime.h"

namespace tenon {

// The bytes of the tokens that the model can draw; made when it is first asked for. Any thread.
using GrammarVocabulary = std::function<Result<std::shared_ptr<const grammar::Vocabulary>>()>;

class Grammars {
 public:
  // `vocabulary` may be empty: then there are no grammars here.
  explicit Grammars(GrammarVocabulary vocabulary, uint32_t size)
      : vocabulary_(std::move(vocabulary)), size_(size) {}

  // Error: unsupported, the tokens' bytes are not known. [any thread]
  Result<std::shared_ptr<grammar::Runtime>> runtime_of(
      const std::shared_ptr<const grammar::Grammar>& grammar);

 private:
  // That nobody follows any more, kept for those to come.
  static constexpr size_t kKept = 8;

  GrammarVocabulary vocabulary_;
  uint32_t size_;  // of the model's vocabulary
  std::mutex mutex_;
  std::vector<std::shared_ptr<grammar::Runtime>> runtimes_;  // the latest last
};

}  // namespace tenon
