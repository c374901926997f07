// Texts of answers, compared between pipelines and servers.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// The text as any reader of JSON may have got it: each run of bytes that are no UTF-8, and of
// U+FFFD, is one U+FFFD. A server replaces such bytes piece by piece, so how many there are says
// nothing.
std::string readable_text(std::string_view text);
// Of readable_text(), 16 hexadecimal digits.
std::string text_hash(std::string_view text);

}  // namespace tenon
