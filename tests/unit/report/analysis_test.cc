#include "core/report/statistics/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/report/pages/text_report.h"
#include "core/report/power.h"
#include "core/report/statistics/fail_rule.h"
#include "tests/unit/report/measured_world.h"

namespace tenon {
namespace {

using testing::Contains;
using testing::ElementsAre;
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

TEST(Analysis, names_digests_only_where_some_were_taken) {
  World world;
  world.pairs(3, 1);
  EXPECT_EQ(analyse(world.measured).arms[0].answers,
            "equal: every token of every piece, and the digests of logits");
  for (MeasuredPiece& piece : world.measured.pieces) {
    for (auto& request : piece.requests) request.digest.clear();
  }
  EXPECT_EQ(analyse(world.measured).arms[0].answers, "equal: every token of every piece");
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

TEST(Analysis, holds_the_texts_of_servers_against_each_other) {
  World world;
  world.measured.arms[1].is_server = true;
  world.measured.arms[1].numerics = "of a server";
  world.pairs(10, 0.8);
  for (MeasuredPiece& piece : world.measured.pieces) {
    for (RequestRow& row : piece.requests) row.text = "text" + std::to_string(row.index);
  }
  const Analysis equal = analyse(world.measured);
  EXPECT_THAT(equal.arms[0].answers, StartsWith("equal: every text"));
  EXPECT_EQ(equal.arms[0].find("throughput")->verdict, Verdict::better);
  EXPECT_THAT(equal.arms[0].why, IsEmpty());
  EXPECT_THAT(equal.arms[0].notes, Contains(HasSubstr("b is asked over HTTP")));
  world.measured.pieces[1].requests[2].text = "other";
  EXPECT_TRUE(analyse(world.measured).arms[0].different_answers);
  EXPECT_THAT(analyse(world.measured).arms[0].answers, HasSubstr("answer 2 has another text"));
  world.measured.plan.same_answers = false;
  const Analysis meant = analyse(world.measured);
  EXPECT_FALSE(meant.arms[0].different_answers);
  EXPECT_THAT(meant.arms[0].answers, HasSubstr("11 of 12 texts are the base's"));
}

TEST(Analysis, says_what_a_lossy_arm_predicts) {
  World world;
  world.pairs(5, 1);
  world.measured.arms[1].numerics = "m";
  world.measured.arms[1].fidelity = {.text = "valid.txt",
                                     .tokens = 400,
                                     .same_top = 0.97,
                                     .base_perplexity = 20,
                                     .perplexity = 21,
                                     .kl_p99_nats = 0.4,
                                     .window_kl_nats = {0.01, 0.02, 0.03, 0.02},
                                     .window_nats_more = {0.04, 0.05, 0.06, 0.05}};
  const std::string answers = analyse(world.measured).arms[0].answers;
  EXPECT_THAT(answers, HasSubstr("on 400 tokens of valid.txt: KL divergence 0.02 nats a token ["));
  EXPECT_THAT(answers,
              HasSubstr("the same likeliest token in 97 %, perplexity 21 instead of 20 (+5"));
  world.measured.arms[1].fidelity.fault = "there is no tokenizer";
  EXPECT_THAT(analyse(world.measured).arms[0].answers,
              HasSubstr("what the answers are worth is not judged: there is no tokenizer"));
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

TEST(Analysis, drops_pairs_of_unlike_shares_of_the_processors_sooner) {
  World world;
  world.pairs(6, 1);
  world.measured.pieces[0].processor_share = 0.93;  // a third of 15 % is 4.8 %
  world.measured.pieces[2].processor_share = 0.96;
  EXPECT_EQ(analyse(world.measured).arms[0].dropped, 1);
  // Less than 0.1 s one after the other are as good as two turns.
  for (MeasuredPiece& piece : world.measured.pieces) piece.seconds *= 0.05;
  EXPECT_EQ(analyse(world.measured).arms[0].dropped, 0);
}

TEST(Analysis, takes_no_unrest_of_the_machine_for_a_change) {
  World world;
  world.pairs(10, 1);
  for (size_t i = 0; i < world.measured.pieces.size(); i += 2) {
    world.measured.pieces[i].before.read_gbps = 20;  // states of a pair are always 20 % apart
  }
  EXPECT_EQ(analyse(world.measured).arms[0].dropped, 0);
  world.measured.pieces[5].before.read_gbps = world.measured.pieces[5].after.read_gbps = 60;
  const Analysis found = analyse(world.measured);
  EXPECT_EQ(found.arms[0].dropped, 1);
  EXPECT_EQ(found.arms[0].pairs, 9);
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

// Where memory lies moves all pieces of a process by the same: with one process an arm that is a
// difference for certain, with several it is spread.
void add_pairs_of_processes(World& world, uint32_t pairs, uint32_t restart) {
  RandomDraws draws(7);
  double of_base = 0, of_arm = 0;
  for (uint32_t block = 0; block < pairs; ++block) {
    if (block % restart == 0) {
      of_base = 0.015 * draws.normal();
      of_arm = 0.015 * draws.normal();
    }
    for (const auto& [arm, shift] : {std::pair("a", of_base), std::pair("b", of_arm)}) {
      world.add(PieceKind::measured, arm, block, 1 + shift).process = block / restart;
    }
  }
}

TEST(Analysis, takes_no_luck_of_a_process_for_a_difference_where_arms_are_started_anew) {
  World once;
  once.spread = 0.002;
  add_pairs_of_processes(once, 60, 60);
  const ArmResult one = analyse(once.measured).arms[0];
  EXPECT_NE(one.find("throughput")->verdict, Verdict::inconclusive);
  EXPECT_THAT(one.notes, Contains(HasSubstr("--restart")));
  // A simulation has no memory that lies anywhere.
  World simulated = once;
  simulated.measured.arms[1].plugins["executor"] = "sim";
  EXPECT_THAT(analyse(simulated.measured).arms[0].notes, Not(Contains(HasSubstr("--restart"))));

  World anew;
  anew.spread = 0.002;
  anew.measured.plan.restart = 3;
  add_pairs_of_processes(anew, 60, 3);
  const ArmResult many = analyse(anew.measured).arms[0];
  const MetricResult& speed = *many.find("throughput");
  EXPECT_EQ(speed.verdict, Verdict::inconclusive);
  EXPECT_TRUE(speed.log_ratio.holds(0));
  EXPECT_EQ(speed.units, 20);
  EXPECT_EQ(speed.log_ratios.size(), 60);
  EXPECT_THAT(many.notes, Not(Contains(HasSubstr("--restart"))));
  EXPECT_THAT(text_report(anew.measured, analyse(anew.measured)),
              HasSubstr("of 20 starts of both arms"));
}

TEST(Analysis, takes_small_differences_of_few_starts_for_where_memory_lies) {
  const auto of = [](uint32_t starts, double factor) {
    World world;
    world.spread = 0.002;
    world.measured.plan.restart_affordable = true;
    world.measured.plan.pairs_seconds = 80;
    world.measured.plan.start_seconds = 10;
    world.pairs(40, factor);
    for (MeasuredPiece& piece : world.measured.pieces) piece.process = piece.block % starts;
    const Analysis analysis = analyse(world.measured);
    const MetricResult& speed = *analysis.arms[0].find("throughput");
    return std::tuple(speed.verdict, speed.units, summary_of(world.measured, analysis).front());
  };
  using testing::FieldsAre;
  EXPECT_THAT(of(1, 1.03), FieldsAre(Verdict::inconclusive, 40, HasSubstr("where a process's")));
  EXPECT_THAT(of(4, 1), FieldsAre(Verdict::inconclusive, 40, HasSubstr("give it 60 s more")));
  EXPECT_THAT(of(1, 1.2), FieldsAre(Verdict::worse, 40, HasSubstr("is worse")));
  EXPECT_THAT(of(8, 1.03), FieldsAre(Verdict::worse, 8, HasSubstr("is worse")));
  EXPECT_THAT(of(8, 1), FieldsAre(Verdict::equivalent, 8, HasSubstr("are equivalent")));
}

TEST(Analysis, says_how_many_starts_a_difference_would_take_and_how_long) {
  World world;
  world.spread = 0.02;
  world.measured.plan.restart_affordable = true;
  world.measured.plan.pairs_seconds = 80;
  world.pairs(40, 1.01);
  for (MeasuredPiece& piece : world.measured.pieces) piece.process = piece.block / 5;
  const Analysis analysis = analyse(world.measured);
  const std::string text = summary_of(world.measured, analysis).front();
  const double starts =
      pairs_like_these(std::log1p(0.01), analysis.arms[0].find("throughput")->deviation, 0.99);
  EXPECT_THAT(text,
              HasSubstr("would take about " + std::to_string(std::lround(starts)) + " starts (" +
                        std::to_string(std::lround(starts * 80 / 8 / 60)) + " min)"));
}

TEST(Analysis, knows_no_noise_floor_where_every_pair_was_dropped) {
  World world;
  world.add(PieceKind::noise, "a", 0, 1);
  world.add(PieceKind::noise, "a", 0, 1, true);
  world.measured.pieces.back().after.read_gbps = world.measured.pieces.back().before.read_gbps / 3;
  const NoiseFloor noise = analyse(world.measured).noise;
  EXPECT_EQ(noise.dropped, 1u);
  EXPECT_EQ(noise_text("throughput", noise), "not known: the machine changed within the only pair");
}

TEST(Analysis, tells_what_planned_pairs_can_show) {
  NoiseFloor two{.pairs = 2, .dropped = 1, .log_ratio = {0, -0.1, 0.1}};
  two.planned = {.count = 8};
  two.detectable = 0.03;
  EXPECT_THAT(
      noise_text("throughput", two),
      testing::EndsWith("in 2 pairs (1 dropped); 8 pairs show a difference of +3.0 % or more"));
  two.planned.starts = true;
  EXPECT_THAT(noise_text("throughput", two),
              testing::EndsWith("8 starts show a difference of +3.0 % or more"));
  NoiseFloor one = two;
  one.pairs = 1;
  EXPECT_THAT(noise_text("throughput", one),
              testing::EndsWith("does not tell what more would show"));
  EXPECT_EQ(noise_text("throughput", {}), "not measured");
}

TEST(Analysis, has_no_ratio_where_an_arm_keeps_no_bound) {
  World world;
  world.measured.plan.slo_ttft_ms = 50;
  world.pairs(6, 1);
  for (MeasuredPiece& piece : world.measured.pieces) {
    for (RequestRow& row : piece.requests) row.ttft_ms = piece.arm == "b" ? 60 : 5;
  }
  const auto rule = [&](const std::string& text) {
    const auto parsed = parse_fail_rule(text);
    return *check(*parsed, world.measured, analyse(world.measured));
  };
  EXPECT_EQ(
      analyse(world.measured).arms[0].find("goodput")->absent,
      "is 0 in 6 of 6 pairs, which have no ratio: the base has some in each, the arm in none");
  EXPECT_EQ(rule("b.goodput < 0.5 * a"), Rule::broken);
  EXPECT_EQ(rule("b.goodput > 0.5 * a"), Rule::kept);
  // In two of them it keeps the bound: a mean over these two would be of its best pieces alone.
  for (MeasuredPiece& piece : world.measured.pieces) {
    if (piece.block > 1) continue;
    for (RequestRow& row : piece.requests) row.ttft_ms = 5;
  }
  EXPECT_EQ(analyse(world.measured).arms[0].find("goodput")->absent,
            "is 0 in 4 of 6 pairs, which have no ratio");
  EXPECT_EQ(rule("b.goodput < 0.5 * a"), Rule::open);
}

TEST(Analysis, takes_the_time_a_token_of_answers_with_several) {
  World world;
  world.pairs(4, 1);
  for (MeasuredPiece& piece : world.measured.pieces) {
    for (RequestRow& row : piece.requests) {
      row.tokens = row.index == 0 ? 1 : 9;
      row.tpot_ms = row.index == 0 ? 0 : 2;
    }
  }
  EXPECT_EQ(analyse(world.measured).arms[0].find("tpot_mean")->arm, 2);
  for (MeasuredPiece& piece : world.measured.pieces) {
    for (RequestRow& row : piece.requests) row.tokens = 1, row.tpot_ms = 0;
  }
  EXPECT_EQ(analyse(world.measured).arms[0].find("tpot_mean")->absent,
            "needs answers of two tokens and more; there are none");
}

TEST(Analysis, knows_nothing_of_answers_that_are_not_there) {
  World world;
  world.pairs(4, 1);
  world.measured.pieces[3].requests.clear();
  EXPECT_THAT(analyse(world.measured).arms[0].answers, StartsWith("not known"));
  world.measured.pieces.clear();
  EXPECT_THAT(analyse(world.measured).arms[0].answers, StartsWith("not known"));
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
  EXPECT_THAT(found.arms[0].why[0], HasSubstr("in executor in steps that decode"));
  EXPECT_THAT(found.arms[0].why[0], HasSubstr("(50 steps instead of 100)"));
}

TEST(Why, blames_the_plugin_whose_time_grew) {
  World world;
  world.pairs(4, 1);
  for (MeasuredPiece& piece : world.measured.pieces)
    piece.decode[1] = piece.arm == "b" ? 0.15 : 0.05;
  EXPECT_THAT(
      analyse(world.measured).arms[0].why[0],
      HasSubstr("b spends 200 % more time in scheduler (static → chunked) in steps that decode"));
}

TEST(Why, says_what_share_of_a_piece_it_is_with_an_interval) {
  World world;
  world.spread = 0;
  world.pairs(4, 1);
  for (MeasuredPiece& piece : world.measured.pieces) {
    piece.decode[1] = piece.arm == "b" ? 0.205 : 0.005;
  }
  EXPECT_EQ(
      analyse(world.measured).arms[0].why,
      std::vector<std::string>{
          "b spends 41 times as much time in scheduler (static → chunked) in steps that decode: "
          "205.0 ms a piece instead of 5.0 ms, which is +20.0 % [+20.0, +20.0] of a piece"});
}

TEST(Why, says_what_a_configured_part_costs_itself_however_little) {
  World world;
  world.pairs(6, 1);
  for (MeasuredPiece& piece : world.measured.pieces) {
    piece.seconds = 1;
    piece.decode[1] = piece.arm == "b" ? 0.0061 + 0.0001 * (piece.block % 2) : 0.005;
    piece.counters["decode_rows"] = piece.arm == "b" ? 330 : 318;
  }
  EXPECT_THAT(analyse(world.measured).arms[0].why, IsEmpty()) << "nothing of it is configured";
  world.measured.arms[1].differences = {"scheduler.plugin: \"static\" → \"chunked\""};
  EXPECT_EQ(analyse(world.measured).arms[0].why,
            std::vector<std::string>{
                "calls of scheduler (static → chunked) themselves take +0.12 % [+0.11, +0.12] of a "
                "piece in steps that decode (330 rows computed instead of 318)"});
  for (MeasuredPiece& piece : world.measured.pieces) {
    if (piece.arm == "b" && piece.block == 3) piece.decode[1] = 0.004;
  }
  EXPECT_THAT(analyse(world.measured).arms[0].why, IsEmpty()) << "not certain";
}

TEST(Why, blames_nobody_for_one_slow_piece) {
  World world;
  world.pairs(6, 1);
  world.measured.pieces[5].decode[1] = 2;
  EXPECT_THAT(analyse(world.measured).arms[0].why, IsEmpty());
}

TEST(Why, says_of_a_certain_difference_that_no_part_is_certain) {
  World world;
  world.pairs(6, 0.5);
  for (MeasuredPiece& piece : world.measured.pieces) {
    piece.decode = {};
    piece.prefill = {};
  }
  // The scheduler takes longer in every piece, and in one of them far longer.
  for (MeasuredPiece& piece : world.measured.pieces)
    piece.decode[1] = piece.arm == "b" ? 0.1 : 0.05;
  for (size_t i = world.measured.pieces.size(); i-- > 0;) {
    if (world.measured.pieces[i].arm != "b") continue;
    world.measured.pieces[i].decode[1] = 3;
    break;
  }
  EXPECT_THAT(analyse(world.measured).arms[0].why,
              ElementsAre(StartsWith("6 pairs do not tell for certain; most differs scheduler")));
}

TEST(Why, is_silent_where_nothing_differs) {
  World world;
  world.spread = 0;
  world.pairs(4, 1);
  EXPECT_THAT(analyse(world.measured).arms[0].why, IsEmpty());
}

TEST(MachineUse, is_the_larger_of_reading_weights_and_computing_and_then_k_and_v) {
  World world;
  world.spread = 0;
  world.pairs(4, 2);
  for (MeasuredPiece& piece : world.measured.pieces) {
    // 0.8 s of the executor in arm a. At 30 GB/s 0.2 s of weights and 0.1 s of K and V; at 100
    // GFLOP/s 0.3 s of arithmetic.
    piece.counters["decode_weight_bytes"] = 6e9;
    piece.counters["decode_kv_bytes"] = 3e9;
    piece.counters["decode_f32_operations"] = 3e10;
  }
  EXPECT_THAT(analyse(world.measured).arms[0].machine_use,
              ElementsAre("decode needs 6.00 GB of weights, 3.00 GB of K and V and 0.030 TOP a "
                          "piece: 0.25 of the limit; a: 0.50"));
}

TEST(MachineUse, counts_operations_at_the_rate_of_their_kind) {
  World world;
  world.spread = 0;
  world.pairs(4, 1);
  for (MeasuredPiece& piece : world.measured.pieces) {
    piece.before.int8_gops = piece.after.int8_gops = 400;
    piece.counters["decode_int8_operations"] = 1.6e11;
  }
  EXPECT_THAT(analyse(world.measured).arms[0].machine_use,
              ElementsAre(HasSubstr("0.50 of the limit")));
}

TEST(MachineUse, blames_no_other_program_in_a_simulation) {
  World world;
  world.spread = 0;
  world.pairs(4, 1);
  for (MeasuredPiece& piece : world.measured.pieces) piece.counters["decode_kv_bytes"] = 1e12;
  EXPECT_THAT(analyse(world.measured).arms[0].machine_use, ElementsAre(HasSubstr("others used")));
  for (MeasuredArm& arm : world.measured.arms) arm.plugins["executor"] = "sim";
  EXPECT_THAT(analyse(world.measured).arms[0].machine_use,
              ElementsAre(HasSubstr("faster than the machine's file says of its memory")));
}

TEST(MachineUse, is_silent_where_nothing_was_counted) {
  World world;
  world.pairs(4, 1);
  EXPECT_THAT(analyse(world.measured).arms[0].machine_use, IsEmpty());
}

TEST(Percent, shows_intervals_and_what_is_unknown) {
  EXPECT_EQ(percent_text(std::log(1.123)), "+12.3 %");
  EXPECT_EQ(percent_text(Interval{.estimate = 0, .low = -0.01, .high = 0.02}),
            "+0.0 % [-1.0, +2.0]");
  EXPECT_EQ(percent_text(Interval{.estimate = 0.01}), "+1.0 % [?, ?]");
}

}  // namespace
}  // namespace tenon
