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
// Likewise upper case; a sharp s becomes two letters, other ligatures stay.
std::string to_upper(std::string_view text);

bool is_space(char32_t code);        // White_Space
bool is_number(char32_t code);       // general category N
bool is_mark(char32_t code);         // general category M
bool is_punctuation(char32_t code);  // general category P, or ASCII punctuation
bool is_letter(char32_t code);       // general category L
bool is_digit(char32_t code);        // general category Nd
bool is_upper(char32_t code);        // general category Lu
bool is_lower(char32_t code);        // general category Ll
// What Python prints as it is: no control, format, private or unassigned character, and of spaces
// only U+0020.
bool is_printable(char32_t code);
// What \w means in UTS #18: alphabetic, mark, decimal digit, connector, join control.
bool is_word(char32_t code);

}  // namespace tenon::tok
