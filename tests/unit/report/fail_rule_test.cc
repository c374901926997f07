#include "core/report/statistics/fail_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;

FailRule rule(std::string_view text) {
  auto parsed = parse_fail_rule(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed.ok() ? *std::move(parsed) : FailRule();
}
std::string fault(std::string_view text) {
  const auto parsed = parse_fail_rule(text);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(FailRule, names_an_arm_a_metric_and_a_factor) {
  const FailRule found = rule("my.arm.ttft_p99 > 1.05 * a");
  EXPECT_EQ(found.arm, "my.arm");
  EXPECT_EQ(found.metric->name, "ttft_p99");
  EXPECT_TRUE(found.above);
  EXPECT_EQ(found.factor, 1.05);
  EXPECT_FALSE(rule("b.throughput < 0.9*a").above);
  EXPECT_EQ(rule("b.throughput<a").factor, 1);
}

TEST(FailRule, says_what_it_does_not_understand) {
  EXPECT_THAT(fault("b.ttft_p50 = a"), HasSubstr("no '>' and no '<'"));
  EXPECT_THAT(fault("ttft_p50 > a"), HasSubstr("no ARM.METRIC"));
  EXPECT_THAT(fault("b.speed > a"), HasSubstr("'speed' is no metric (there are throughput"));
  EXPECT_THAT(fault("b.ttft_p50 > x * a"), HasSubstr("must be a number"));
  EXPECT_THAT(fault("b.ttft_p50 > 1.1 *"), HasSubstr("nothing stands on the right"));
}

struct Measurements {
  Measurements() {
    measured.arms = {{.name = "a"}, {.name = "b"}};
    ArmResult arm{.arm = &measured.arms[1]};
    arm.metrics.push_back({.metric = find_metric("ttft_p50")});
    analysis.arms.push_back(arm);
  }
  Rule checked(double low, double high, std::string_view text) {
    analysis.arms[0].metrics[0].log_ratio = {.low = std::log(low), .high = std::log(high)};
    const auto found = check(rule(text), measured, analysis);
    EXPECT_TRUE(found.ok());
    return found.ok() ? *found : Rule::open;
  }

  MeasuredComparison measured;
  Analysis analysis;
};

TEST(FailRule, is_broken_only_where_the_whole_interval_is_beyond) {
  Measurements world;
  EXPECT_EQ(world.checked(1.06, 1.2, "b.ttft_p50 > 1.05 * a"), Rule::broken);
  EXPECT_EQ(world.checked(1.01, 1.2, "b.ttft_p50 > 1.05 * a"), Rule::open);
  EXPECT_EQ(world.checked(0.9, 1.02, "b.ttft_p50 > 1.05 * a"), Rule::kept);
  EXPECT_EQ(world.checked(0.8, 0.85, "b.ttft_p50 < 0.9 * a"), Rule::broken);
  EXPECT_EQ(world.checked(0.95, 1.2, "b.ttft_p50 < 0.9 * a"), Rule::kept);
}

TEST(FailRule, waits_for_pairs_only_while_they_could_tell) {
  Measurements world;
  const FailRule open = rule("b.ttft_p50 > 1.05 * a");
  EXPECT_EQ(world.checked(1.01, 1.2, open.text), Rule::open);
  EXPECT_TRUE(waits_for_pairs(open, world.measured, world.analysis));
  world.analysis.arms[0].metrics[0].absent = "needs 10 requests in a piece; there are 3";
  EXPECT_FALSE(waits_for_pairs(open, world.measured, world.analysis));
  world.analysis.arms[0].metrics[0].absent = "";
  EXPECT_EQ(world.checked(1.06, 1.2, open.text), Rule::broken);
  EXPECT_FALSE(waits_for_pairs(open, world.measured, world.analysis));
}

TEST(FailRule, knows_the_names_of_its_arms_beforehand) {
  const std::string names[] = {"a", "b"};
  EXPECT_TRUE(check_names(rule("b.ttft_p50 > 1.05 * a"), names).ok());
  EXPECT_THAT(message_of(check_names(rule("a.ttft_p50 > a"), names)),
              HasSubstr("there is no arm 'a' (there are b)"));
  EXPECT_THAT(message_of(check_names(rule("b.ttft_p50 > base"), names)),
              HasSubstr("the base is called 'a', not 'base'"));
}

TEST(FailRule, is_broken_by_other_answers_and_knows_no_other_arms) {
  Measurements world;
  world.analysis.arms[0].different_answers = true;
  EXPECT_EQ(world.checked(0.5, 0.6, "b.ttft_p50 > 1.05 * a"), Rule::broken);
  const auto unknown = check(rule("c.ttft_p50 > a"), world.measured, world.analysis);
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(std::string(unknown.status().message()),
              HasSubstr("there is no arm 'c' (there are b)"));
}

}  // namespace
}  // namespace tenon
