#include "core/unicode/utf8.h"

#include <gtest/gtest.h>

namespace tenon::tok {
namespace {

std::string round_trip(const std::string& bytes) {
  std::string out;
  append_unescaped(out, escape_bytes(bytes));
  return out;
}

TEST(Utf8, carries_every_byte_through_escaping) {
  std::string bytes = "text before, longer than a machine word \xC3\xA9";
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  bytes += "\xED\xA0\x80\xED\xB2\x80\xE2\x82";  // encoded surrogates are bytes like any others
  EXPECT_EQ(round_trip(bytes), bytes);
}

TEST(Utf8, leaves_valid_text_as_it_is) {
  const std::string text = "plain, na\xC3\xAFve, \xE6\x97\xA5\xE6\x9C\xAC, \xF0\x9F\xA6\x99";
  EXPECT_EQ(escape_bytes(text), text);
}

TEST(Utf8, decodes_what_it_encodes) {
  for (const char32_t code :
       {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xDC80u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text = "x";
    append_rune(text, code);
    EXPECT_EQ(last_rune(text).code, code);
    EXPECT_EQ(first_rune(std::string_view(text).substr(1)).bytes, text.size() - 1);
  }
}

}  // namespace
}  // namespace tenon::tok
