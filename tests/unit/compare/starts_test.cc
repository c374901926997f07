// Arms that are started anew as often as there is time, so that an interval holds where their
// memory happens to lie.
#include <map>

#include "core/compare/start_plan.h"
#include "core/report/statistics/units.h"
#include "tests/unit/compare/laboratory.h"

namespace tenon::compare {
namespace {

TEST(StartPlan, measures_twice_as_long_as_a_start_takes) {
  StartPlan plan;
  plan.plan(2, 0.5, 600, 10000);
  EXPECT_FALSE(plan.is_due(3.5, 300));
  EXPECT_TRUE(plan.is_due(4, 300));
  EXPECT_EQ(plan.starts_within(600), 100u);
  EXPECT_FALSE(plan.is_due(4, 2.4)) << "no pair would fit after it";
}

TEST(StartPlan, measures_for_less_where_too_few_starts_would_fit) {
  StartPlan plan;
  plan.plan(5, 0.5, 120, 10000);
  EXPECT_EQ(plan.starts_within(120), 12u);
  EXPECT_FALSE(plan.is_due(4, 60));
  EXPECT_TRUE(plan.is_due(5, 60));
  plan.plan(5, 10, 90, 10000);  // one pair a start
  EXPECT_TRUE(plan.is_due(10, 60));
  EXPECT_EQ(plan.starts_within(90), 6u);
}

TEST(StartPlan, spreads_few_pairs_over_starts) {
  StartPlan plan;
  plan.plan(2, 0.5, 600, 48);
  EXPECT_TRUE(plan.is_due(2, 300)) << "four pairs a start";
  plan.plan(2, 0.5, 600, 8);
  EXPECT_TRUE(plan.is_due(0.5, 300));
  plan.plan(2, 0.5, 600, 4);
  EXPECT_FALSE(plan.is_due(100, 300));
}

TEST(StartPlan, starts_nothing_anew_where_the_fewest_starts_do_not_fit) {
  StartPlan plan;
  EXPECT_FALSE(plan.is_due(1e9, 1e9)) << "before it knows anything";
  plan.plan(20, 5, kFewestStarts * 25 - 1, 10000);
  EXPECT_FALSE(plan.is_due(100, 50));
  EXPECT_EQ(plan.starts_within(100), 1u);
  plan.plan(0, 0, 100, 10000);  // a clock that stands still
  EXPECT_FALSE(plan.is_due(100, 50));
}

class StartsTest : public ExperimentTest {
 protected:
  StartsTest() {
    comparison_.restart = {};
    comparison_.budget_ns = 120'000'000'000;
    lab_.behaviours["a"] = {.seconds = 0.1, .spread = 0.002, .luck = 0.015, .load_seconds = 0.3};
    lab_.behaviours["b"] = lab_.behaviours["a"];
  }
  const MetricResult& speed() {
    analysis_ = analyse(measured_);
    return *analysis_.arms.at(0).find("throughput");
  }
  Analysis analysis_;
};

TEST_F(StartsTest, are_as_many_as_there_is_time_for_and_cost_a_third_of_it) {
  comparison_.margin = 0.0001;  // no early end
  ASSERT_TRUE(run().ok());
  EXPECT_TRUE(measured_.plan.restart_affordable);
  // A start of both is 2 (0.3 + 0.1) s, and pairs go on for twice as long.
  const MetricResult& found = speed();
  EXPECT_GE(found.units, 45u);
  EXPECT_LE(found.units, 50u);
  double in_pairs = 0;
  for (const MeasuredPiece& piece : measured_.pieces) {
    in_pairs += piece.kind == PieceKind::measured ? piece.seconds : 0;
  }
  EXPECT_GT(in_pairs, 0.55 * measured_.plan.pairs_seconds);
  EXPECT_LE(lab_.now_ns, 1.02 * comparison_.budget_ns);
}

TEST_F(StartsTest, take_as_many_pieces_to_be_warm_as_the_first_needed) {
  lab_.behaviours["a"].cold_pieces = 2;
  ASSERT_TRUE(run().ok());
  std::map<std::pair<std::string, uint32_t>, int> warm;
  for (const MeasuredPiece& piece : measured_.pieces) {
    warm[{piece.arm, piece.process}] += piece.kind == PieceKind::warm_up ? 1 : 0;
  }
  EXPECT_EQ((warm[{"a", 0}]), 4);  // two cold ones, a warm one, and one that is no faster
  EXPECT_EQ((warm[{"b", 0}]), 2);
  EXPECT_EQ((warm[{"a", 3}]), 2);
  EXPECT_EQ((warm[{"b", 3}]), 1);
}

// A new process gets the memory that was given back last.
TEST_F(StartsTest, have_all_arms_end_first_and_begin_in_an_order_that_is_drawn) {
  ASSERT_TRUE(run().ok());
  std::map<std::string, int> first;
  for (size_t i = 2; i + 1 < lab_.started.size(); i += 2) {
    EXPECT_NE(lab_.started[i], lab_.started[i + 1]);
    ++first[lab_.started[i]];
  }
  EXPECT_GT(first["a"], 10);
  EXPECT_GT(first["b"], 10);
  EXPECT_EQ(lab_.most_alive, 2);
}

TEST_F(StartsTest, an_interrupt_while_they_begin_is_no_error) {
  lab_.interrupt_at_start = 5;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.plan.ended, "ended by SIGINT");
}

TEST_F(StartsTest, tell_luck_from_a_difference) {
  comparison_.budget_ns = 60'000'000'000;
  int told = 0, found = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const double factor : {1.0, 1.03}) {
      TemporaryFolder other;
      lab_.now_ns = 0;
      lab_.behaviours["b"].seconds = factor * lab_.behaviours["a"].seconds;
      comparison_.seed = seed;
      ASSERT_TRUE(run_in(other.path("results")).ok());
      const Verdict verdict = speed().verdict;
      if (factor > 1) found += verdict == Verdict::worse ? 1 : 0;
      if (factor == 1) told += verdict == Verdict::better || verdict == Verdict::worse ? 1 : 0;
    }
  }
  EXPECT_EQ(told, 0);
  EXPECT_GE(found, 9);
}

TEST_F(StartsTest, are_not_needed_for_a_difference_that_no_luck_makes) {
  lab_.behaviours["b"].seconds = 0.2;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.plan.ended, "every verdict on throughput is in");
  EXPECT_EQ(speed().verdict, Verdict::worse);
  EXPECT_LT(lab_.now_ns, 5'000'000'000);
}

TEST_F(StartsTest, too_few_of_them_leave_small_differences_open) {
  for (const char* arm : {"a", "b"}) lab_.behaviours[arm].load_seconds = 15;
  lab_.behaviours["b"].seconds = 1.03 * lab_.behaviours["a"].seconds;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(lab_.started.size(), 2u);
  EXPECT_EQ(speed().verdict, Verdict::inconclusive);
  EXPECT_TRUE(speed().of_few_starts);
}

TEST_F(StartsTest, of_a_against_a_are_as_many_as_its_pairs_where_there_is_time) {
  comparison_.noise_pairs = 5;
  ASSERT_TRUE(run().ok());
  std::set<uint32_t> starts;
  for (const MeasuredPiece& piece : measured_.pieces) {
    if (piece.kind == PieceKind::noise) starts.insert(piece.process);
  }
  EXPECT_EQ(starts.size(), 5u);
}

TEST_F(StartsTest, are_one_where_somebody_said_so_and_of_simulations) {
  comparison_.restart = 0;
  comparison_.pairs = 50;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(lab_.started.size(), 2u);
  EXPECT_FALSE(measured_.plan.restart_affordable);
  comparison_.restart = {};
  ExperimentOptions simulated;
  simulated.simulated = true;
  ASSERT_TRUE(run_in(parent_.path("simulated"), simulated).ok());
  EXPECT_FALSE(measured_.plan.restart_affordable);
}

}  // namespace
}  // namespace tenon::compare
