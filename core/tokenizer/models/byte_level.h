// The byte-level alphabet of GPT-2: every byte has one printable character that stands for it, so
// that a vocabulary of strings can hold arbitrary bytes. Printable Latin-1 characters stand for
// themselves, the other 68 bytes are U+0100 … U+0143 in order (a space is "Ġ").
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::tok {

char32_t byte_level_rune(uint8_t byte);
std::optional<uint8_t> byte_level_byte(char32_t code);

// Appends the characters that stand for the bytes of `text` (escaped bytes count as themselves).
void append_byte_level(std::string& out, std::string_view text);

// Appends the bytes that `piece` stands for; false, with nothing appended, when it has a character
// outside the alphabet.
bool append_byte_level_decoded(std::string& out, std::string_view piece);

}  // namespace tenon::tok
