#include "core/report/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/report/text_report.h"
#include "tests/unit/report/measured_world.h"

namespace tenon {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(Analysis, calls_an_arm_better_that_takes_less_time) {
  World world;
  world.pairs(10, 0.8);
  const Analysis found = analyse(world.measured);
  ASSERT_EQ(found.arms.size(), 1);
  EXPECT_EQ(found.arms[0].pairs, 10);
  const MetricResult& speed = *found.arms[0].find("throughput");
  EXPECT_EQ(speed.verdict, Verdict::better);
  EXPECT_TRUE(speed.log_ratio.holds(std::log(1 / 0.8)));
  EXPECT_EQ(found.arms[0].find("ttft_p50")->verdict, Verdict::better);
  EXPECT_THAT(found.arms[0].answers, StartsWith("equal"));
}

TEST(Analysis, ranks_no_speed_where_answers_differ) {
  World world;
  world.pairs(10, 0.8);
  world.measured.pieces[7].requests[3].answer = "other";
  const Analysis found = analyse(world.measured);
  EXPECT_TRUE(found.arms[0].different_answers);
  EXPECT_THAT(found.arms[0].answers, HasSubstr("request 3, sample 0 has other tokens"));
  EXPECT_THAT(found.arms[0].metrics, IsEmpty());
}

TEST(Analysis, finds_equal_tokens_of_other_logits) {
  World world;
  world.pairs(5, 1);
  world.measured.pieces[1].requests[2].digest = "other";
  EXPECT_THAT(analyse(world.measured).arms[0].answers, HasSubstr("from other logits"));
}

TEST(Analysis, does_not_compare_answers_of_other_numerics) {
  World world;
  world.pairs(5, 1);
  world.measured.arms[1].numerics = "m";
  world.measured.pieces[1].requests[2].answer = "other";
  const Analysis found = analyse(world.measured);
  EXPECT_FALSE(found.arms[0].different_answers);
  EXPECT_THAT(found.arms[0].answers, HasSubstr("the numerics differ (n, m)"));
}

TEST(Analysis, drops_pairs_between_which_the_machine_changed) {
  World world;
  world.pairs(6, 1);
  world.measured.pieces[3].before.read_gbps = 20;
  world.measured.pieces[4].processor_share = 0.5;
  const Analysis found = analyse(world.measured);
  EXPECT_EQ(found.arms[0].pairs, 4);
  EXPECT_EQ(found.arms[0].dropped, 2);
}

TEST(Analysis, needs_enough_requests_for_a_tail) {
  World world;
  world.pairs(6, 1);
  const Analysis found = analyse(world.measured);
  EXPECT_THAT(found.arms[0].find("ttft_p99")->absent,
              HasSubstr("needs 100 requests in a piece; there are 12"));
  EXPECT_THAT(found.arms[0].find("ttft_p90")->absent, IsEmpty());
}

TEST(Analysis, widens_intervals_for_several_arms) {
  World world;
  world.pairs(8, 0.9);
  const double one = analyse(world.measured).arms[0].find("throughput")->log_ratio.high;
  world.measured.arms.push_back({.name = "c", .numerics = "n"});
  const Analysis found = analyse(world.measured);
  EXPECT_GT(found.arms[0].find("throughput")->log_ratio.high, one);
  EXPECT_EQ(found.arms[1].find("throughput")->absent, "no pair was measured");
}

TEST(Analysis, tells_no_difference_that_a_shows_against_itself) {
  World world;
  world.pairs(10, 0.97);
  EXPECT_EQ(analyse(world.measured).arms[0].find("throughput")->verdict, Verdict::better);
  for (uint32_t i = 0; i < 6; ++i) {
    world.add(PieceKind::noise, "a", i, 1);
    world.add(PieceKind::noise, "a", i, 0.96, true);
  }
  const Analysis found = analyse(world.measured);
  EXPECT_GT(found.noise.floor, 0.03);
  EXPECT_EQ(found.arms[0].find("throughput")->verdict, Verdict::inconclusive);
}

TEST(Analysis, knows_no_noise_floor_where_every_pair_was_dropped) {
  World world;
  world.add(PieceKind::noise, "a", 0, 1);
  world.add(PieceKind::noise, "a", 0, 1, true);
  world.measured.pieces.back().after.read_gbps = world.measured.pieces.back().before.read_gbps / 3;
  const NoiseFloor noise = analyse(world.measured).noise;
  EXPECT_EQ(noise.dropped, 1u);
  EXPECT_EQ(noise_text("throughput", noise, 8),
            "not known: the machine's state changed within each of 1 pairs");
}

TEST(Analysis, tells_what_planned_pairs_can_show) {
  const NoiseFloor two{.pairs = 2, .dropped = 1, .log_ratio = {0, -0.1, 0.1}, .detectable = 0.03};
  EXPECT_THAT(
      noise_text("throughput", two, 8),
      testing::EndsWith("in 2 pairs (1 dropped); 8 pairs show a difference of +3.0 % or more"));
  NoiseFloor one = two;
  one.pairs = 1;
  EXPECT_THAT(noise_text("throughput", one),
              testing::EndsWith("does not tell what more would show"));
  EXPECT_EQ(noise_text("throughput", {}), "not measured");
}

TEST(Analysis, says_that_an_open_loop_is_saturated) {
  World world;
  world.measured.plan.open_loop = true;
  world.pairs(3, 1);
  for (MeasuredPiece& piece : world.measured.pieces) {
    for (RequestRow& each : piece.requests) each.ttft_ms = 10 + 50 * each.index;
  }
  EXPECT_THAT(analyse(world.measured).notes, Contains(HasSubstr("a is saturated")));
}

TEST(Why, names_the_part_and_the_counter_that_says_so) {
  World world;
  world.pairs(4, 0.5);
  const Analysis found = analyse(world.measured);
  ASSERT_FALSE(found.arms[0].why.empty());
  EXPECT_THAT(found.arms[0].why[0], HasSubstr("in executor of steps that decode"));
  EXPECT_THAT(found.arms[0].why[0], HasSubstr("(50 steps instead of 100)"));
}

TEST(Why, blames_the_plugin_whose_time_grew) {
  World world;
  world.pairs(4, 1);
  for (MeasuredPiece& piece : world.measured.pieces)
    piece.decode[1] = piece.arm == "b" ? 0.15 : 0.05;
  EXPECT_THAT(
      analyse(world.measured).arms[0].why[0],
      HasSubstr("b spends 200 % more in scheduler (static → chunked) of steps that decode"));
}

TEST(Why, blames_nobody_for_one_slow_piece) {
  World world;
  world.pairs(6, 1);
  world.measured.pieces[5].decode[1] = 2;
  EXPECT_THAT(analyse(world.measured).arms[0].why, IsEmpty());
}

TEST(Why, is_silent_where_nothing_differs) {
  World world;
  world.spread = 0;
  world.pairs(4, 1);
  EXPECT_THAT(analyse(world.measured).arms[0].why, IsEmpty());
}

TEST(Percent, shows_intervals_and_what_is_unknown) {
  EXPECT_EQ(percent_text(std::log(1.123)), "+12.3 %");
  EXPECT_EQ(percent_text(Interval{.estimate = 0, .low = -0.01, .high = 0.02}),
            "+0.0 % [-1.0, +2.0]");
  EXPECT_EQ(percent_text(Interval{.estimate = 0.01}), "+1.0 % [?, ?]");
}

}  // namespace
}  // namespace tenon
