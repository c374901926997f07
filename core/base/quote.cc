#include "core/base/quote.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "core/base/utf8.h"

namespace tenon {
namespace {

bool between(uint32_t code, uint32_t first, uint32_t last) {
  return code >= first && code <= last;
}

// What moves a terminal's cursor, changes its state, or shows text in another order than it has.
bool is_unsafe(uint32_t code) {
  return code < 0x20 || between(code, 0x7F, 0x9F) || between(code, 0x200B, 0x200F) ||
         between(code, 0x2028, 0x202E) || between(code, 0x2066, 0x2069) || code == 0xFEFF;
}

std::string escape(uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  char text[16];
  std::snprintf(text, sizeof(text), code < 0x80 ? "\\x%02X" : "\\u%04X", code);
  return text;
}

std::string escape_byte(char byte) {
  char text[8];
  std::snprintf(text, sizeof(text), "\\x%02X", static_cast<unsigned>(static_cast<uint8_t>(byte)));
  return text;
}

std::string shown(std::string_view text, size_t limit_bytes, bool line_ends) {
  if (text.data() == nullptr) return {};  // plugins give such views, of any length
  std::string out;
  out.reserve(std::min(text.size(), limit_bytes) + 32);
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const Utf8Character character = first_character(rest);
    const bool plain = character.bytes > 0 &&
                       (!is_unsafe(character.code) || (line_ends && character.code == '\n'));
    const std::string piece = plain                 ? std::string(rest.substr(0, character.bytes))
                              : character.bytes > 0 ? escape(character.code)
                                                    : escape_byte(rest[0]);
    if (out.size() + piece.size() > limit_bytes) {
      return out + "… (" + std::to_string(text.size()) + " bytes)";
    }
    out += piece;
    at += std::max<size_t>(character.bytes, 1);
  }
  return out;
}

}  // namespace

std::string one_line(std::string_view text, size_t limit_bytes) {
  return shown(text, limit_bytes, false);
}

std::string in_quotes(std::string_view text, size_t limit_bytes) {
  return "'" + one_line(text, limit_bytes) + "'";
}

std::string shown_text(std::string_view text) {
  return '"' + one_line(text, kMostValueBytes) + '"';
}

std::string printable(std::string_view message, size_t limit_bytes) {
  return shown(message, limit_bytes, true);
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kNotPlain = " \t\n'\"\\$*?&|;<>()`#~!{}[]";
  if (!word.empty() && word.find_first_of(kNotPlain) == word.npos) return word;
  std::string made = "'";
  for (const char c : word) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + "'";
}

}  // namespace tenon
