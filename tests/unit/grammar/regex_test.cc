#include <gmock/gmock.h>

#include <random>
#include <regex>

#include "tests/unit/grammar/grammar_testing.h"

namespace tenon::grammar {
namespace {

using testing::HasSubstr;

TEST(Regex, the_whole_text_is_meant) {
  EXPECT_TRUE(matches(GrammarKind::regex, "ab|c", "ab"));
  EXPECT_TRUE(matches(GrammarKind::regex, "ab|c", "c"));
  EXPECT_FALSE(matches(GrammarKind::regex, "ab|c", "abc"));
  EXPECT_FALSE(matches(GrammarKind::regex, "ab|c", "xc"));
  EXPECT_TRUE(matches(GrammarKind::regex, "^a+$", "aaa"));
  EXPECT_TRUE(matches(GrammarKind::regex, "(^a|b$)", "b"));
}

TEST(Regex, characters_are_whole_ones) {
  EXPECT_TRUE(matches(GrammarKind::regex, ".", "ä"));
  EXPECT_TRUE(matches(GrammarKind::regex, ".", "😀"));
  EXPECT_FALSE(matches(GrammarKind::regex, "..", "ä"));
  EXPECT_FALSE(matches(GrammarKind::regex, ".", "\xc3"));
  EXPECT_TRUE(matches(GrammarKind::regex, "[à-ü]{2}", "äö"));
  EXPECT_FALSE(matches(GrammarKind::regex, "[à-ü]{2}", "äz"));
  EXPECT_TRUE(matches(GrammarKind::regex, "[^a]", "ß"));
  EXPECT_TRUE(matches(GrammarKind::regex, R"(\u{1f600}\u00e4)", "😀ä"));
  EXPECT_TRUE(matches(GrammarKind::regex, R"(\ud83d\ude00)", "😀"));
}

// Expressions that std::regex reads the same way, against it on random texts.
TEST(Regex, agrees_with_another_engine) {
  const std::string patterns[] = {"a*b",
                                  "(ab|a)(c|bcd)",
                                  "[a-c]{2,4}",
                                  "(a|b){3}c?",
                                  "a{0}b",
                                  "(a|ab|abc|b|c)*d",
                                  "(?:a(?:b(?:c)?)?)+",
                                  "[^ab]+[ab]",
                                  "\\w\\W\\d?",
                                  "a{2,}b{1,3}",
                                  "(a?){5}a{5}",
                                  "((a|b)*c){2}",
                                  "a+?b*?",
                                  "[a\\]]{1,2}",
                                  "[-a]+|[b-]",
                                  "(a*)*b",
                                  "((ab){2,7}c){1,9}",
                                  ""};
  std::mt19937 random(7);
  int matched = 0;
  for (const std::string& pattern : patterns) {
    const auto grammar = compiled(GrammarKind::regex, pattern);
    ASSERT_NE(grammar, nullptr) << pattern;
    const std::regex other(pattern, std::regex::ECMAScript);
    for (int round = 0; round < 4000; ++round) {
      std::string text;
      for (size_t length = random() % 9; length > 0; --length)
        text.push_back("abcd1-] "[random() % 8]);
      const bool expected = std::regex_match(text, other);
      matched += expected;
      ASSERT_EQ(matches(*grammar, text), expected) << pattern << " on " << text;
    }
  }
  EXPECT_GT(matched, 400);
}

TEST(Regex, counts_far_without_writing_it_out) {
  const auto grammar = compiled(GrammarKind::regex, "(ab|c){1000,2000}d");
  EXPECT_LT(grammar->states(), 50u);
  std::string text;
  for (int i = 0; i < 999; ++i) text += i % 2 == 0 ? "ab" : "c";
  EXPECT_FALSE(matches(*grammar, text + "d"));
  EXPECT_TRUE(matches(*grammar, text + "cd"));
  for (int i = 0; i < 1001; ++i) text += "c";
  EXPECT_TRUE(matches(*grammar, text + "d"));
  EXPECT_FALSE(matches(*grammar, text + "cd"));
}

TEST(Regex, refuses_by_name_and_place) {
  EXPECT_THAT(refusal(GrammarKind::regex, "a(?=b)"), HasSubstr("at byte 1: this kind of group"));
  EXPECT_THAT(refusal(GrammarKind::regex, "(a)\\1"), HasSubstr("at byte 3: a back reference"));
  EXPECT_THAT(refusal(GrammarKind::regex, "\\bword"), HasSubstr("a word boundary"));
  EXPECT_THAT(refusal(GrammarKind::regex, "\\p{L}"), HasSubstr("the escape \\p"));
  EXPECT_THAT(refusal(GrammarKind::regex, "a^b"), HasSubstr("^ inside of a pattern"));
  EXPECT_THAT(refusal(GrammarKind::regex, "a++"), HasSubstr("possessive"));
  EXPECT_THAT(refusal(GrammarKind::regex, "(a"), HasSubstr("without its closing parenthesis"));
  EXPECT_THAT(refusal(GrammarKind::regex, "a)"), HasSubstr("without its group"));
  EXPECT_THAT(refusal(GrammarKind::regex, "[a"), HasSubstr("closing bracket"));
  EXPECT_THAT(refusal(GrammarKind::regex, "*a"), HasSubstr("nothing before it"));
  EXPECT_THAT(refusal(GrammarKind::regex, "a{3,2}"), HasSubstr("bounds are swapped"));
  EXPECT_THAT(refusal(GrammarKind::regex, "[z-a]"), HasSubstr("in order"));
  EXPECT_THAT(refusal(GrammarKind::regex, "\\"), HasSubstr("a backslash at the end"));
  EXPECT_THAT(refusal(GrammarKind::regex, "[^\\s\\S]"), HasSubstr("nothing satisfies"));
  EXPECT_THAT(refusal(GrammarKind::regex, "\xff"), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal(GrammarKind::regex, std::string(300, '(')), HasSubstr("nested deeper"));
  EXPECT_THAT(refusal(GrammarKind::regex, "(a?){1000}"), HasSubstr("may be empty"));
}

}  // namespace
}  // namespace tenon::grammar
