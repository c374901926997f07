#include "core/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon {
namespace {

TEST(Utf8, knows_valid_sequences_from_overlong_surrogate_and_cut_off_ones) {
  for (const char* text :
       {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xF0\x9F\xA6\x99", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(first_character(text).bytes, std::string_view(text).size());
  }
  for (const char* text : {"\x80", "\xC0\xAF", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80",
                           "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80", "\xFF"}) {
    EXPECT_EQ(first_character(text).bytes, 0u);
  }
}

TEST(Utf8, decodes_characters) {
  EXPECT_EQ(first_character("").bytes, 0u);
  EXPECT_EQ(first_character("a\xFF").code, U'a');
  EXPECT_EQ(first_character("\xC3\xA9").code, 0xE9u);
  EXPECT_EQ(first_character("\xE2\x82\xAC!").code, 0x20ACu);
  EXPECT_EQ(first_character("\xF4\x8F\xBF\xBF").code, 0x10FFFFu);
}

TEST(Utf8, ends_at_the_first_byte_of_no_character_wherever_that_stands) {
  EXPECT_TRUE(is_utf8("größer 🙂"));
  EXPECT_TRUE(is_utf8(""));
  for (size_t before = 0; before < 20; ++before) {
    const std::string text = std::string(before, 'x') + "\xE9y";
    EXPECT_EQ(utf8_until(text), before);
    EXPECT_EQ(utf8_until(text, before + 1), text.size());
    EXPECT_FALSE(is_utf8(text));
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
}  // namespace tenon
