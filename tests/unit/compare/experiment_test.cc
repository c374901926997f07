// The order of an experiment, with arms that take as long as they are told to and a clock that only
// they move.
#include "core/compare/experiment.h"

#include <set>

#include "core/compare/json.h"
#include "tests/unit/compare/laboratory.h"

namespace tenon::compare {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ExperimentOptions simulated() {
  ExperimentOptions options;
  options.simulated = true;
  return options;
}
ExperimentOptions of_rows(size_t most) {
  ExperimentOptions options;
  options.most_rows = most;
  return options;
}

TEST_F(ExperimentTest, waits_for_a_processor_count_for_all_arms_or_for_none) {
  comparison_.pairs = 5;
  const auto counted = [this] {
    lab_.orders.clear();
    static int number = 0;
    EXPECT_TRUE(run_in(parent_.path("waits" + std::to_string(++number))).ok());
    std::set<bool> out;
    for (const ArmOrder& order : lab_.orders) out.insert(order.count_waits);
    return out;
  };
  EXPECT_EQ(counted(), std::set<bool>{false});
  lab_.behaviours["b"].leaves_waits_out = false;  // an arm of an older build
  EXPECT_EQ(counted(), std::set<bool>{true});
  lab_.behaviours["b"].leaves_waits_out = true;
  comparison_.count_waits = true;
  EXPECT_EQ(counted(), std::set<bool>{true});
}

TEST_F(ExperimentTest, it_ends_once_the_verdict_is_in) {
  lab_.behaviours["b"].seconds = 0.5;
  lab_.behaviours["a"].spread = lab_.behaviours["b"].spread = 0.01;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.plan.ended, "every verdict on throughput is in");
  const Analysis analysis = analyse(measured_);
  ASSERT_EQ(analysis.arms.size(), 1u);
  EXPECT_EQ(analysis.arms[0].find("throughput")->verdict, Verdict::better);
  EXPECT_GE(arms_of(PieceKind::measured).size(), 10u);
  EXPECT_LT(arms_of(PieceKind::measured).size(), 80u);
}

TEST_F(ExperimentTest, what_stays_uncertain_runs_all_pairs) {
  lab_.behaviours["a"].spread = 0.3;
  comparison_.pairs = 6;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.plan.ended, "6 pairs were run");
  EXPECT_EQ(arms_of(PieceKind::measured).size(), 12u);
}

TEST_F(ExperimentTest, a_simulation_that_repeats_itself_is_not_run_again) {
  comparison_.pairs = 4;
  ASSERT_TRUE(run(simulated()).ok());
  EXPECT_EQ(lab_.orders.size(), 4u);  // two arms, each to begin with and once more
  ASSERT_EQ(arms_of(PieceKind::measured).size(), 8u);
  for (const MeasuredPiece& piece : measured_.pieces) EXPECT_EQ(piece.requests.size(), 12u);
  EXPECT_EQ(measured_.pieces.back().block, 3u);
  // A plugin that goes on from what it learnt, or arrivals of each block's own.
  lab_.orders.clear();
  lab_.behaviours["b"].spread = 0.1;
  ASSERT_TRUE(run_in(parent_.path("learns"), simulated()).ok());
  EXPECT_EQ(lab_.orders.size(), 10u);
  lab_.orders.clear();
  lab_.behaviours["b"].spread = 0;
  comparison_.in_flight = 0;
  comparison_.rate = 3;
  ASSERT_TRUE(run_in(parent_.path("drawn"), simulated()).ok());
  EXPECT_EQ(lab_.orders.size(), 10u);
}

TEST_F(ExperimentTest, pieces_of_very_many_requests_say_the_same_as_their_rows) {
  lab_.behaviours["a"].spread = lab_.behaviours["b"].spread = 0.2;
  lab_.behaviours["b"].seconds = 0.7;
  comparison_.pairs = 6;
  ASSERT_TRUE(run_in(parent_.path("rows")).ok());
  const Json rows = analysis_json(measured_, analyse(measured_));
  ASSERT_TRUE(run_in(parent_.path("summary"), of_rows(3)).ok());
  EXPECT_NE(measured_.pieces.front().summary, nullptr);
  EXPECT_EQ(analysis_json(measured_, analyse(measured_)).dump(), rows.dump());
  std::vector<std::string> notes;
  const auto read = read_folder(parent_.path("summary"), notes, 3);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(analysis_json(*read, analyse(*read)).dump(), rows.dump());
}

TEST_F(ExperimentTest, every_second_pair_runs_the_other_way_round) {
  lab_.behaviours["a"].spread = 0.3;
  comparison_.pairs = 8;
  ASSERT_TRUE(run().ok());
  const std::vector<std::string> arms = arms_of(PieceKind::measured);
  ASSERT_EQ(arms.size(), 16u);
  for (size_t i = 0; i < arms.size(); i += 4) {
    EXPECT_NE(arms[i], arms[i + 1]);
    EXPECT_EQ(arms[i], arms[i + 3]);
    EXPECT_EQ(arms[i + 1], arms[i + 2]);
  }
}

TEST_F(ExperimentTest, every_piece_has_a_salt_of_its_own_and_the_first_of_an_arm_digests) {
  lab_.behaviours["a"].spread = 0.3;
  comparison_.pairs = 5;
  ASSERT_TRUE(run().ok());
  std::set<uint64_t> salts;
  int with_digests = 0;
  for (const ArmOrder& order : lab_.orders) {
    salts.insert(order.salt);
    with_digests += order.digests;
  }
  EXPECT_EQ(salts.size(), lab_.orders.size());
  EXPECT_EQ(with_digests, 2);
}

TEST_F(ExperimentTest, it_ends_where_the_next_pair_would_not_fit_the_budget) {
  lab_.behaviours["a"].spread = 0.3;
  comparison_.budget_ns = 20'000'000'000;
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(measured_.plan.ended, HasSubstr("the budget of 20s is spent"));
  EXPECT_FALSE(measured_.pieces.empty());
  EXPECT_LE(lab_.now_ns, comparison_.budget_ns + 3'000'000'000);
}

TEST_F(ExperimentTest, it_goes_on_beyond_its_share_until_it_has_the_fewest_pairs) {
  lab_.behaviours["a"].spread = 0.3;
  comparison_.share_ns = 4'000'000'000;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.plan.ended, "its share of the budget, 4s, is spent");
  EXPECT_EQ(arms_of(PieceKind::measured).size(), 2 * kFewestPairs);
  comparison_.share_ns = 50'000'000'000;
  lab_.now_ns = 0;
  ASSERT_TRUE(run_in(parent_.path("more")).ok());
  EXPECT_EQ(measured_.plan.ended, "its share of the budget, 50s, is spent");
  EXPECT_GT(arms_of(PieceKind::measured).size(), 2 * kFewestPairs);
  EXPECT_LE(lab_.now_ns, comparison_.share_ns);
}

TEST_F(ExperimentTest, an_interrupt_is_no_error_and_keeps_what_was_measured) {
  lab_.behaviours["a"].spread = 0.3;
  lab_.interrupt_after = 9;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.plan.ended, "ended by SIGINT");
  EXPECT_EQ(measured_.pieces.size(), 8u);  // the ninth was given up
  std::vector<std::string> notes;
  const auto read = read_folder(parent_.path("results"), notes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->pieces.size(), 8u);
  EXPECT_EQ(read->plan.ended, "ended by SIGINT");
}

TEST_F(ExperimentTest, an_arm_with_different_answers_is_not_measured) {
  lab_.behaviours["b"].answer = "other tokens";
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.plan.ended, "every arm gives different answers");
  EXPECT_THAT(arms_of(PieceKind::measured), IsEmpty());
  EXPECT_THAT(lab_.told, Contains(HasSubstr("b gives different answers")));
}

TEST_F(ExperimentTest, the_other_arms_go_on_without_one_of_different_answers) {
  comparison_.arms.push_back({.name = "c"});
  lab_.behaviours["b"].answer = "other tokens";
  lab_.behaviours["c"].seconds = 0.5;
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(arms_of(PieceKind::measured), Not(Contains("b")));
  EXPECT_THAT(arms_of(PieceKind::measured), Contains("c"));
}

TEST_F(ExperimentTest, an_arm_that_fails_ends_it_and_says_why) {
  lab_.behaviours["a"].spread = 0.3;
  lab_.behaviours["b"].fails_after = 5;
  const Status status = run();
  EXPECT_THAT(std::string(status.message()), HasSubstr("the kernel fell over"));
  EXPECT_THAT(measured_.plan.ended, HasSubstr("the kernel fell over"));
  EXPECT_THAT(arms_of(PieceKind::measured), Contains("a"));
}

TEST_F(ExperimentTest, a_model_that_changes_ends_it) {
  lab_.behaviours["a"].spread = 0.3;
  lab_.behaviours["b"].model_changes = true;
  EXPECT_THAT(std::string(run().message()), HasSubstr("the model changed"));
}

TEST_F(ExperimentTest, a_against_a_runs_a_second_process_of_the_base) {
  comparison_.noise_pairs = 3;
  lab_.behaviours["a"].spread = 0.01;
  lab_.behaviours["b"].seconds = 0.5;
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(lab_.started, ElementsAre("a", "b", "a"));
  EXPECT_EQ(arms_of(PieceKind::noise).size(), 6u);
  int again = 0;
  for (const MeasuredPiece& piece : measured_.pieces) {
    again += piece.kind == PieceKind::noise && piece.again;
  }
  EXPECT_EQ(again, 3);
  EXPECT_THAT(lab_.told, Contains(HasSubstr("A against A")));
}

TEST_F(ExperimentTest, pairs_come_before_a_against_a_where_there_is_no_time_for_both) {
  comparison_.noise_pairs = 3;
  comparison_.budget_ns = 150'000'000'000;
  lab_.behaviours["a"].spread = 0.3;
  lab_.behaviours["a"].seconds = 10;
  lab_.behaviours["b"].seconds = 10;
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(lab_.started, ElementsAre("a", "b"));
  EXPECT_GE(arms_of(PieceKind::measured).size(), 10u);
  EXPECT_THAT(lab_.told, Contains(HasSubstr("A against A: left out")));
}

TEST_F(ExperimentTest, arms_are_started_anew_after_so_many_pairs) {
  lab_.behaviours["a"].spread = 0.3;
  comparison_.pairs = 6;
  comparison_.restart = 2;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(lab_.started.size(), 6u);
  EXPECT_EQ(std::ranges::count(lab_.started, "a"), 3);
  EXPECT_EQ(measured_.pieces.back().process, 2u);
}

TEST_F(ExperimentTest, arms_of_other_numerics_are_judged_by_a_text) {
  comparison_.arms.push_back({.name = "c"});
  lab_.behaviours["b"].numerics = "m";
  lab_.behaviours["b"].seconds = lab_.behaviours["c"].seconds = 0.5;
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(lab_.judged, ElementsAre("b against ids"));
  EXPECT_EQ(measured_.arms[1].fidelity.tokens, 10u);
  EXPECT_EQ(measured_.arms[2].fidelity.tokens, 0u);
}

TEST_F(ExperimentTest, an_arm_that_cannot_be_judged_is_measured_all_the_same) {
  lab_.behaviours["b"].numerics = "m";
  lab_.behaviours["b"].seconds = 0.5;
  lab_.behaviours["b"].judge_fault = "another tokenizer";
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.arms[1].fidelity.fault, "another tokenizer");
  EXPECT_THAT(arms_of(PieceKind::measured), Contains("b"));
}

TEST_F(ExperimentTest, differences_are_told_before_anything_is_measured) {
  lab_.behaviours["b"].seconds = 0.5;
  ASSERT_TRUE(run().ok());
  ASSERT_FALSE(lab_.told.empty());
  EXPECT_EQ(lab_.told.front(), "b differs from a in scheduler.plugin: \"a\" → \"b\"");
  EXPECT_EQ(measured_.plan.machine, "a calm machine");
}

TEST_F(ExperimentTest, only_an_arm_s_first_piece_is_recorded) {
  lab_.behaviours["b"].seconds = 0.5;
  ASSERT_TRUE(run({.command = "tenon compare", .rules = {}, .record = true}).ok());
  std::vector<std::string> files;
  for (const ArmOrder& order : lab_.orders) {
    if (!order.record.empty()) files.push_back(order.record);
  }
  EXPECT_THAT(files, ElementsAre(HasSubstr("views0.jsonl"), HasSubstr("views1.jsonl")));
}

}  // namespace
}  // namespace tenon::compare
