#include "core/tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace tenon::tok {
namespace {

std::string round_trip(const std::string& bytes) {
  std::string out;
  append_unescaped(out, escape_bytes(bytes));
  return out;
}

TEST(Utf8, knows_valid_sequences_from_overlong_surrogate_and_cut_off_ones) {
  for (const char* text :
       {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xF0\x9F\xA6\x99", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(valid_sequence(text), std::string_view(text).size());
  }
  for (const char* text : {"\x80", "\xC0\xAF", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80",
                           "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80", "\xFF"}) {
    EXPECT_EQ(valid_sequence(text), 0u);
  }
}

TEST(Utf8, carries_every_byte_through_escaping) {
  std::string bytes = "text before, longer than a machine word \xC3\xA9";
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  bytes += "\xED\xA0\x80\xED\xB2\x80\xE2\x82";  // encoded surrogates are bytes like any others
  EXPECT_FALSE(is_valid_utf8(bytes));
  EXPECT_EQ(round_trip(bytes), bytes);
}

TEST(Utf8, leaves_valid_text_as_it_is) {
  const std::string text = "plain, na\xC3\xAFve, \xE6\x97\xA5\xE6\x9C\xAC, \xF0\x9F\xA6\x99";
  EXPECT_TRUE(is_valid_utf8(text));
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

TEST(Utf8, finds_the_beginning_of_a_character_at_the_end) {
  EXPECT_EQ(incomplete_tail(""), 0u);
  EXPECT_EQ(incomplete_tail("a"), 0u);
  EXPECT_EQ(incomplete_tail("a\xC3"), 1u);
  EXPECT_EQ(incomplete_tail("a\xF0\x9F\xA6"), 3u);
  EXPECT_EQ(incomplete_tail("a\xF0\x9F\xA6\x99"), 0u);
  EXPECT_EQ(incomplete_tail("\x80\x80"), 0u);
  EXPECT_EQ(incomplete_tail("\xE0\x80"), 0u);  // no continuation makes this a character
  EXPECT_EQ(incomplete_tail("\xFF"), 0u);
}

}  // namespace
}  // namespace tenon::tok
