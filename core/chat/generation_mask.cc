#include "core/chat/generation_mask.h"

#include <algorithm>
#include <string>

#include "core/tokenizer/tokenizer.h"

namespace tenon {

Result<std::vector<uint8_t>> generation_mask(const Tokenizer& tokenizer, const RenderedChat& chat,
                                             std::span<const TokenId> ids) {
  StreamingDetokenizer decoder(tokenizer, /*skip_special=*/false);
  std::vector<uint8_t> mask;
  std::string text;
  for (const TokenId id : ids) {
    const size_t begin = text.size();
    text += decoder.push(id);
    // A token that ends inside of a character has no byte of its own yet.
    const size_t end = std::max(text.size(), begin + 1);
    const bool is_generated = std::any_of(
        chat.generations.begin(), chat.generations.end(),
        [begin, end](const TextSpan span) { return begin < span.end && span.begin < end; });
    mask.push_back(is_generated ? 1 : 0);
  }
  text += decoder.finish();
  if (text != chat.text) {
    return unsupported(
        "this tokenizer does not give the conversation back as it was, so its tokens have no place "
        "in the text – there is no mask");
  }
  return mask;
}

}  // namespace tenon
