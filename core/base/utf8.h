// UTF-8, character by character. Longer forms than needed and surrogates are no characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tenon {

struct Utf8Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0 where the text does not start with a character
};

// At the front of `text`; none where it is empty.
Utf8Character first_character(std::string_view text);
// The offset of the first byte at or after `from` that is part of no character; the text's size
// where there is none. A character starts at `from`.
size_t utf8_until(std::string_view text, size_t from = 0);
bool is_utf8(std::string_view text);

// How many bytes at the end of `bytes` are the beginning of a character that more bytes could
// still complete (0 to 3).
size_t incomplete_tail(std::string_view bytes);

}  // namespace tenon
