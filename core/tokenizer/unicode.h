// Properties of characters and the Unicode normal forms (UAX #15), over utf8proc's tables.
#pragma once

#include <string>
#include <string_view>

namespace tenon::tok {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Structurally valid text in a normal form. Linear in the text, up to sorting runs of marks.
std::string to_normal_form(std::string_view text, NormalForm form);

// Each character's lower case, without context (a final sigma stays σ).
std::string to_lower(std::string_view text);

bool is_space(char32_t code);        // White_Space
bool is_number(char32_t code);       // general category N
bool is_mark(char32_t code);         // general category M
bool is_punctuation(char32_t code);  // general category P, or ASCII punctuation
// What \w means in UTS #18: alphabetic, mark, decimal digit, connector, join control.
bool is_word(char32_t code);

}  // namespace tenon::tok
