#include "core/report/statistics/given_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string fault_of(std::string_view text) {
  const Result<GivenPairs> pairs = parse_pairs(text);
  return pairs.ok() ? "" : message_of(pairs.status());
}

TEST(GivenPairs, are_read_from_lines_with_names_comments_and_empty_lines) {
  const auto pairs = parse_pairs("static, chunked\n# a comment\n\n 1.5,2\r\n3,4e0\n");
  ASSERT_TRUE(pairs.ok()) << message_of(pairs.status());
  EXPECT_EQ(pairs->base_name, "static");
  EXPECT_EQ(pairs->arm_name, "chunked");
  EXPECT_THAT(pairs->base, ElementsAre(1.5, 3));
  EXPECT_THAT(pairs->arm, ElementsAre(2, 4));
}

TEST(GivenPairs, may_stand_in_quotes_as_spreadsheets_write_them) {
  const auto pairs = parse_pairs("\"old, static\",\"new\"\n\"1.5\",\"2\"\n");
  ASSERT_TRUE(pairs.ok()) << message_of(pairs.status());
  EXPECT_EQ(pairs->base_name, "old, static");
  EXPECT_THAT(pairs->arm, ElementsAre(2));
}

TEST(GivenPairs, that_are_none_are_refused_with_their_line) {
  EXPECT_THAT(fault_of("1,2\n3\n"), HasSubstr("line 2: '3' is no pair"));
  EXPECT_THAT(fault_of("1,2,3"), HasSubstr("line 1"));
  EXPECT_THAT(fault_of("1,2\nx,y"), HasSubstr("line 2"));
  EXPECT_THAT(fault_of("1,0"), HasSubstr("line 1"));
  EXPECT_THAT(fault_of("1,-2"), HasSubstr("line 1"));
  EXPECT_THAT(fault_of("1,nan"), HasSubstr("line 1"));
  EXPECT_THAT(fault_of("a,b\n"), HasSubstr("there is no pair"));
  EXPECT_THAT(fault_of(""), HasSubstr("there is no pair"));
  // A first line that is no pair of names, either.
  for (const char* first : {"12.1s,13.4s", "n/a,n/a", "-x,y", "0x10,0x20", "a,b\nc,d"}) {
    EXPECT_THAT(fault_of(first + std::string("\n1,2\n")), HasSubstr("line")) << first;
  }
}

TEST(GivenPairs, do_not_tell_from_one_how_many_it_takes) {
  const GivenPairs one{.base = {1}, .arm = {2}};
  const std::string text = pairs_report(one, {}, judge_pairs(one, {}));
  EXPECT_THAT(text, HasSubstr("over 1 pair; medians"));
  EXPECT_THAT(text, HasSubstr("one pair does not tell"));
  EXPECT_THAT(text, Not(HasSubstr("would show 1")));
}

GivenPairs spread(double ratio, double spread, size_t count) {
  GivenPairs pairs;
  for (size_t i = 0; i < count; ++i) {
    const double turn = i % 2 == 0 ? 1 + spread : 1 / (1 + spread);
    pairs.base.push_back(100.0 + static_cast<double>(i));
    pairs.arm.push_back(pairs.base.back() * ratio * turn);
  }
  return pairs;
}

TEST(GivenPairs, are_judged_by_the_ratio_of_each_pair_and_not_by_their_means) {
  // The machine halves its speed again and again; each pair saw one state of it.
  GivenPairs pairs = spread(1.1, 0.001, 8);
  for (size_t i = 0; i < 8; ++i) {
    pairs.base[i] *= std::pow(0.5, static_cast<double>(i));
    pairs.arm[i] *= std::pow(0.5, static_cast<double>(i));
  }
  const PairsAnswer answer = judge_pairs(pairs, {});
  EXPECT_EQ(answer.verdict, Verdict::better);
  EXPECT_NEAR(std::exp(answer.log_ratio.estimate), 1.1, 1e-3);
}

TEST(GivenPairs, of_times_are_better_where_they_are_lower) {
  EXPECT_EQ(judge_pairs(spread(0.8, 0.002, 8), {.better = Better::lower}).verdict, Verdict::better);
  EXPECT_EQ(judge_pairs(spread(0.8, 0.002, 8), {}).verdict, Verdict::worse);
}

TEST(GivenPairs, have_a_narrower_interval_where_their_number_was_fixed_before) {
  const GivenPairs pairs = spread(1.02, 0.005, 10);
  const PairsAnswer once = judge_pairs(pairs, {.looks = Looks::once});
  const PairsAnswer always = judge_pairs(pairs, {});
  EXPECT_LT(once.log_ratio.high - once.log_ratio.low, always.log_ratio.high - always.log_ratio.low);
  EXPECT_EQ(once.log_ratio.estimate, always.log_ratio.estimate);
}

TEST(GivenPairs, that_decide_nothing_say_how_many_would) {
  const GivenPairs pairs = spread(1.01, 0.05, 6);
  const PairsAnswer answer = judge_pairs(pairs, {});
  EXPECT_EQ(answer.verdict, Verdict::inconclusive);
  EXPECT_GT(answer.pairs_for_margin, 6u);
  EXPECT_THAT(pairs_report(pairs, {}, answer),
              HasSubstr(std::to_string(answer.pairs_for_margin) + " pairs would show 1 %"));
}

TEST(GivenPairs, that_are_too_few_have_no_interval) {
  const GivenPairs pairs = spread(2, 0.01, 1);
  const PairsAnswer answer = judge_pairs(pairs, {.looks = Looks::once});
  EXPECT_EQ(answer.verdict, Verdict::inconclusive);
  EXPECT_FALSE(answer.log_ratio.bounded());
}

}  // namespace
}  // namespace tenon
