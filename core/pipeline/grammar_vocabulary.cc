#include "core/pipeline/grammar_vocabulary.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon {
namespace {

struct Made {
  std::mutex mutex;
  std::shared_ptr<const grammar::Vocabulary> vocabulary;
};

}  // namespace

GrammarVocabulary grammar_vocabulary(const Tokenizer& tokenizer, uint32_t size,
                                     std::span<const TokenId> ends) {
  return [made = std::make_shared<Made>(), tokens = &tokenizer, size,
          end_tokens = std::vector<TokenId>(
              ends.begin(), ends.end())]() -> Result<std::shared_ptr<const grammar::Vocabulary>> {
    const std::lock_guard lock(made->mutex);
    if (made->vocabulary != nullptr) return made->vocabulary;
    std::vector<std::string> bytes(size);
    for (uint32_t id = 0; id < std::min(size, tokens->vocab_size()); ++id) {
      const auto token = static_cast<TokenId>(id);
      const bool ends_text =
          std::find(end_tokens.begin(), end_tokens.end(), token) != end_tokens.end();
      if (ends_text) continue;
      if (tokens->is_special(token)) {
        bytes[id] = grammar::special_bytes(tokens->piece(token));
        continue;
      }
      bytes[id] = tokens->token_bytes(token);
      // The byte that begins special tokens is of no text: one of bytes may be it.
      if (bytes[id].find(grammar::kSpecialByte) != std::string::npos) bytes[id].clear();
    }
    TENON_ASSIGN_OR_RETURN(made->vocabulary, grammar::Vocabulary::make(std::move(bytes)));
    return made->vocabulary;
  };
}

}  // namespace tenon
