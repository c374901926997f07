#include "core/tokenizer/regex/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/tokenizer/stages/pattern.h"

namespace tenon::tok {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Strings = std::vector<std::string>;

Strings matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status().message();
  if (!regex.ok()) return {};
  std::vector<Span> spans;
  Allowance allowance(text.size());
  EXPECT_TRUE(regex->find_all(text, allowance, spans).ok());
  Strings out;
  for (const Span span : spans) out.emplace_back(text.substr(span.begin, span.end - span.begin));
  return out;
}

std::string refusal(std::string_view pattern) {
  return std::string(Regex::compile(pattern).status().message());
}

TEST(Regex, cuts_words_as_gpt2_does) {
  EXPECT_THAT(
      matches(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
              "It's  na\xC3\xAFve, 42!\n\n x"),
      ElementsAre("It", "'s", " ", " na\xC3\xAFve", ",", " 42", "!", "\n\n", " x"));
}

TEST(Regex, intersects_and_nests_classes) {
  EXPECT_THAT(matches(R"([a-z&&[^aeiou]]+)", "hello world"), ElementsAre("h", "ll", "w", "rld"));
  EXPECT_THAT(matches(R"([a[xyz]]+)", "axb[y]"), ElementsAre("ax", "y"));
  EXPECT_THAT(matches(R"( ?[^(\s|[.,!?])]+)", "one two|three, (four)"),
              ElementsAre("one", " two", "three", "four"));
}

TEST(Regex, reads_escapes_as_oniguruma_does) {
  EXPECT_THAT(matches(R"(\h+)", "xyz beef"), ElementsAre("beef"));
  EXPECT_THAT(matches(R"(\v)", "\n\x0B\f"), ElementsAre("\x0B"));
  // U+180E is no whitespace any more.
  EXPECT_THAT(matches(R"(\s+)", "a\xE1\xA0\x8E b"), ElementsAre(" "));
  EXPECT_THAT(matches(R"(\u4e16\x{754c})", "\xE4\xB8\x96\xE7\x95\x8C"),
              ElementsAre("\xE4\xB8\x96\xE7\x95\x8C"));
}

TEST(Regex, repeats_intervals_instead_of_making_them_possessive) {
  EXPECT_THAT(matches("a{2}+b", "aaaab aab"), ElementsAre("aaaab", "aab"));
  EXPECT_THAT(matches("a{2}?b", "aab b"), ElementsAre("aab", "b"));
  EXPECT_THAT(matches("a++a", "aaa"), ElementsAre());
}

TEST(Regex, ends_lines_at_dollar_and_lets_inline_options_reach_over_alternatives) {
  EXPECT_THAT(matches(R"(\s+$)", "a  \nb \n"), ElementsAre("  ", " \n"));
  EXPECT_THAT(matches("a(?i)b|c", "aB ac C"), ElementsAre("aB", "ac"));
  EXPECT_THAT(matches("(?i:'s|'LL)", "it'S we'll"), ElementsAre("'S", "'ll"));
}

TEST(Regex, takes_scripts_by_their_own_characters) {
  EXPECT_THAT(matches(R"(\p{Han}+)", "\xE6\xBC\xA2\xE3\x80\x82\xE3\x81\x8B"),
              ElementsAre("\xE6\xBC\xA2"));
}

TEST(Regex, skips_empty_matches_behind_a_match) {
  EXPECT_THAT(matches("a*", "baac"), ElementsAre("", "aa", ""));
}

TEST(Regex, gives_up_on_exponential_patterns_with_an_error) {
  const auto regex = Regex::compile("(?:a|a)*(?:b|c)");
  ASSERT_TRUE(regex.ok());
  std::vector<Span> spans;
  Allowance allowance(60);
  const Status status = regex->find_all(std::string(60, 'a'), allowance, spans);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("matching a regular expression of the tokenizer stopped at byte 0"));
}

TEST(Regex, stays_linear_where_a_run_never_matches) {
  const auto regex = Regex::compile(R"(\s+$)");
  ASSERT_TRUE(regex.ok());
  std::vector<Span> spans;
  Allowance allowance(1'000'001);
  EXPECT_TRUE(regex->find_all(std::string(1'000'000, ' ') + "x", allowance, spans).ok());
  EXPECT_TRUE(spans.empty());
}

TEST(Regex, walks_through_long_runs_without_a_stack) {
  const std::string run(2'000'000, ' ');
  EXPECT_EQ(matches(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", run + "x").size(), 2u);
  EXPECT_EQ(matches("(?:a|b)+", std::string(200'000, 'a')).size(), 1u);
}

TEST(Regex, refuses_by_name_what_has_no_equivalent) {
  EXPECT_EQ(refusal(R"((a)\1)"), R"(regular expression at byte 5: \1 is not supported)");
  EXPECT_EQ(refusal(R"(a\K)"), R"(regular expression at byte 3: \K is not supported)");
  EXPECT_THAT(refusal("(?x)a b"), HasSubstr("this kind of group (?…) is not supported"));
  EXPECT_THAT(refusal("(*LIMIT_MATCH=1)a"), HasSubstr("a verb (*…) is not supported"));
  EXPECT_THAT(refusal(R"(\xC3)"), HasSubstr("a byte that is no character"));
  EXPECT_THAT(refusal(R"(\p{Klingon})"), HasSubstr("unknown property"));
}

TEST(Regex, refuses_malformed_patterns) {
  EXPECT_EQ(refusal("(a"), "regular expression at byte 2: a group without its closing parenthesis");
  EXPECT_EQ(refusal("a)"), "regular expression at byte 1: a closing parenthesis without its group");
  EXPECT_EQ(refusal("[a"), "regular expression at byte 2: a class without its closing bracket");
  EXPECT_EQ(refusal("*a"), "regular expression at byte 1: a quantifier with nothing to repeat");
  EXPECT_THAT(refusal("[b-a]"), HasSubstr("a range that runs backwards"));
  EXPECT_THAT(refusal(std::string(40, '[')), HasSubstr("nested this deeply"));
  EXPECT_THAT(refusal(std::string(100'000, 'a')), HasSubstr("at most 65536 are supported"));
  EXPECT_FALSE(Regex::compile(std::string(5000, '(') + std::string(5000, ')')).ok());
}

Strings split(std::string_view text, SplitBehavior behavior, bool invert = false) {
  const auto pattern = Pattern::literal("-");
  std::vector<Span> found;
  std::vector<Span> pieces;
  Allowance allowance(text.size());
  EXPECT_TRUE(pattern->find_all(text, allowance, found).ok());
  split_at(found, text.size(), behavior, invert, pieces);
  Strings out;
  for (const Span span : pieces) out.emplace_back(text.substr(span.begin, span.end - span.begin));
  return out;
}

TEST(Pattern, splits_in_five_ways) {
  const std::string_view text = "the-final--countdown";
  EXPECT_THAT(split(text, SplitBehavior::removed), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(split(text, SplitBehavior::isolated),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(split(text, SplitBehavior::merged_with_previous),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(split(text, SplitBehavior::merged_with_next),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(split(text, SplitBehavior::contiguous),
              ElementsAre("the", "-", "final", "--", "countdown"));
}

TEST(Pattern, inverts_what_counts_as_the_match) {
  EXPECT_THAT(split("a-b--", SplitBehavior::removed, true), ElementsAre("-", "-", "-"));
  EXPECT_THAT(split("a-b", SplitBehavior::merged_with_next, true), ElementsAre("a-", "b"));
}

}  // namespace
}  // namespace tenon::tok
