#include "core/unicode/unicode.h"

#include <gtest/gtest.h>

namespace tenon::tok {
namespace {

TEST(Unicode, composes_what_belongs_together) {
  EXPECT_EQ(to_normal_form("cafe\xCC\x81", NormalForm::nfc), "caf\xC3\xA9");
  EXPECT_EQ(to_normal_form("\xE2\x84\xAB", NormalForm::nfc), "\xC3\x85");  // Angstrom sign
  EXPECT_EQ(to_normal_form("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", NormalForm::nfc),
            "\xEA\xB0\x81");  // Hangul
}

TEST(Unicode, decomposes_and_orders_marks) {
  EXPECT_EQ(to_normal_form("\xC3\xA9", NormalForm::nfd), "e\xCC\x81");
  // Cedilla (class 202) goes before acute (class 230), whichever was written first.
  EXPECT_EQ(to_normal_form("e\xCC\x81\xCC\xA7", NormalForm::nfd), "e\xCC\xA7\xCC\x81");
  EXPECT_EQ(to_normal_form("e\xCC\x81\xCC\xA7", NormalForm::nfc), "\xC8\xA9\xCC\x81");
}

TEST(Unicode, replaces_compatibility_characters_only_in_the_k_forms) {
  const std::string ligature = "\xEF\xAC\x81";
  EXPECT_EQ(to_normal_form(ligature, NormalForm::nfc), ligature);
  EXPECT_EQ(to_normal_form(ligature, NormalForm::nfkc), "fi");
  EXPECT_EQ(to_normal_form("\xC2\xBD", NormalForm::nfkd),
            "1\xE2\x81\x84"
            "2");
}

TEST(Unicode, leaves_escaped_bytes_alone) {
  const std::string escaped = "e\xED\xB2\x80\xCC\x81";
  EXPECT_EQ(to_normal_form(escaped, NormalForm::nfc), escaped);
  EXPECT_EQ(to_lower(escaped), escaped);
}

TEST(Unicode, orders_a_million_marks) {
  std::string text = "a";
  for (int i = 0; i < 500000; ++i) text += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA7";
  const std::string ordered = to_normal_form(text, NormalForm::nfd);
  EXPECT_EQ(ordered.size(), text.size());
  EXPECT_EQ(ordered.substr(0, 5), "a\xCC\xA7\xCC\xA7");
  EXPECT_EQ(ordered.substr(ordered.size() - 2), "\xCC\x81");
}

TEST(Unicode, lowers_case_without_context) {
  EXPECT_EQ(to_lower("ABC \xC3\x89 \xCE\xA3"), "abc \xC3\xA9 \xCF\x83");
  EXPECT_EQ(to_lower("\xC4\xB0"), "i\xCC\x87");
}

TEST(Unicode, knows_the_classes_of_characters) {
  EXPECT_TRUE(is_space(0x3000) && is_space(0x85) && !is_space(0x180E) && !is_space(0x200B));
  EXPECT_TRUE(is_number(U'7') && is_number(0xBD) && is_number(0x2167) && !is_number(U'x'));
  EXPECT_TRUE(is_punctuation(U'$') && is_punctuation(0x3002) && !is_punctuation(0x20AC));
  EXPECT_TRUE(is_mark(0x301) && !is_mark(U'a'));
  EXPECT_TRUE(is_word(U'_') && is_word(0x4E16) && is_word(0x24B6) && !is_word(0xB2));
}

}  // namespace
}  // namespace tenon::tok
