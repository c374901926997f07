#include "core/report/pages/answer_text.h"

#include "core/base/digest/sha256.h"
#include "core/base/utf8.h"

namespace tenon {

std::string readable_text(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string out;
  bool replaced = false;
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    const bool unreadable = character.bytes == 0 || character.code == 0xFFFD;
    const size_t bytes = character.bytes == 0 ? 1 : character.bytes;
    if (!unreadable) out += text.substr(0, bytes);
    if (unreadable && !replaced) out += kReplacement;
    replaced = unreadable;
    text.remove_prefix(bytes);
  }
  return out;
}

std::string text_hash(std::string_view text) {
  return sha256_hex(readable_text(text)).substr(0, 16);
}

}  // namespace tenon
