// UTF-8, character by character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tenon {

struct Utf8Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0 where the text does not start with a character
};

// Of a text that is not empty. Longer forms than needed and surrogates are no characters.
Utf8Character first_character(std::string_view text);
bool is_utf8(std::string_view text);

}  // namespace tenon
