// How characters, and bytes that are not UTF-8, travel through the tokenizer.
//
// Inside this room running text is always structurally valid: a byte b that is no part of a valid
// UTF-8 sequence is carried as the lone surrogate U+DC00 + b (three bytes, ED B2..B3 xx). Valid
// text cannot contain a surrogate, so nothing is ambiguous, regexes and tables see one character,
// and the byte comes back exactly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::tok {

// The space of SentencePiece vocabularies, U+2581.
inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";

struct Rune {
  char32_t code;
  uint32_t bytes;
};

// `text` with every byte that is not UTF-8 replaced by its surrogate.
std::string escape_bytes(std::string_view text);
// The inverse of escape_bytes, appended to `out`.
void append_unescaped(std::string& out, std::string_view text);

inline bool is_escaped_byte(char32_t code) {
  return code >= 0xDC80 && code <= 0xDCFF;
}
inline uint8_t escaped_byte(char32_t code) {
  return static_cast<uint8_t>(code - 0xDC00);
}

// The length that a lead byte of structurally valid text announces.
inline uint32_t rune_bytes(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The first character of structurally valid, non-empty text.
Rune first_rune(std::string_view text);
// The last character of structurally valid, non-empty text.
Rune last_rune(std::string_view text);
void append_rune(std::string& out, char32_t code);

}  // namespace tenon::tok
