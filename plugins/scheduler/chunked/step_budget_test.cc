// The automatic budget, over scripted costs of steps.
#include <gtest/gtest.h>
#include <tenon/sdk/scheduler/step_budget.h>

#include <cmath>

namespace tenon {
namespace {

constexpr uint32_t kMost = 4096;

// A machine whose steps cost a fixed time, and more for each row from `free_rows` on.
struct Machine {
  double fixed_ns = 10e6;
  double row_ns = 1e5;
  double free_rows = 0;
  uint64_t step = 0;

  StepCost run(uint32_t decoding, uint32_t rows) {
    const double paid = std::max(0.0, rows - free_rows);
    return {++step, rows, decoding + (rows > decoding ? 1u : 0u),
            decoding == 0 ? 1u : std::min(decoding, rows),
            static_cast<int64_t>(fixed_ns + row_ns * paid)};
  }
};

// Steps in which `decoding` sequences decode and prompts fill the budget, as a scheduler makes
// them. Mean rows of those with prompts.
double use(sdk::StepBudget& budget, Machine& machine, uint32_t decoding, int steps) {
  double rows = 0, with_prompts = 0;
  for (int i = 0; i < steps; ++i) {
    if (budget.ask_for_decoding_alone(machine.step + 1, decoding, kMost)) {
      budget.observe(machine.run(decoding, decoding));
      continue;
    }
    const uint32_t granted = budget.rows(decoding, kMost);
    budget.observe(machine.run(decoding, granted));
    rows += granted;
    ++with_prompts;
  }
  return rows / with_prompts;
}

// The most rows that a step may have.
double best_rows(const Machine& machine, double target, uint32_t decoding) {
  const double alone = machine.fixed_ns + machine.row_ns * decoding;
  return (target * alone - machine.fixed_ns) / machine.row_ns;
}

TEST(StepBudget, is_all_there_is_when_nobody_is_kept_waiting) {
  sdk::StepBudget budget(2.0);
  EXPECT_EQ(budget.rows(0, kMost), kMost);
  Machine machine;
  use(budget, machine, 8, 50);
  EXPECT_EQ(budget.rows(0, kMost), kMost);
}

TEST(StepBudget, starts_with_a_moderate_step) {
  sdk::StepBudget budget(2.0);
  EXPECT_EQ(budget.rows(8, kMost), 8u + 256);
  EXPECT_EQ(budget.rows(8, 100), 100u);
}

TEST(StepBudget, keeps_a_step_within_the_target) {
  for (const double target : {1.5, 2.0, 4.0}) {
    for (const uint32_t decoding : {1u, 8u, 64u}) {
      sdk::StepBudget budget(target);
      Machine machine;
      use(budget, machine, decoding, 60);
      const uint32_t rows = budget.rows(decoding, kMost);
      const double best = best_rows(machine, target, decoding);
      EXPECT_LE(rows, best + 1) << target << " with " << decoding;
      EXPECT_GE(rows, 0.7 * best) << target << " with " << decoding;
    }
  }
}

TEST(StepBudget, finds_rows_that_cost_nothing) {
  sdk::StepBudget budget(1.2);
  Machine machine{.fixed_ns = 20e6, .row_ns = 1e5, .free_rows = 900};
  use(budget, machine, 8, 60);
  EXPECT_GE(budget.rows(8, kMost), 800u);
  EXPECT_LE(budget.rows(8, kMost), 950u);
}

TEST(StepBudget, never_leaves_prompts_without_any_rows) {
  sdk::StepBudget budget(1.05);
  Machine machine{.fixed_ns = 1e6, .row_ns = 1e7};
  use(budget, machine, 8, 60);
  EXPECT_EQ(budget.rows(8, kMost), 8u + 16);
}

TEST(StepBudget, is_not_moved_by_a_stall) {
  sdk::StepBudget budget(2.0);
  Machine machine;
  use(budget, machine, 8, 60);
  const uint32_t before = budget.rows(8, kMost);
  StepCost stalled = machine.run(8, before);
  stalled.duration_ns *= 100;
  budget.observe(stalled);
  stalled = machine.run(8, 8);
  stalled.duration_ns *= 100;
  budget.observe(stalled);
  EXPECT_EQ(budget.rows(8, kMost), before);
}

TEST(StepBudget, follows_a_machine_that_became_slower) {
  sdk::StepBudget budget(2.0);
  Machine machine;
  use(budget, machine, 8, 60);
  const uint32_t before = budget.rows(8, kMost);
  machine.row_ns *= 4;
  use(budget, machine, 8, 60);
  EXPECT_LT(budget.rows(8, kMost), before / 2);
}

TEST(StepBudget, stays_where_it_is_when_everything_becomes_slower_and_faster) {
  sdk::StepBudget budget(3.0);
  Machine machine;
  use(budget, machine, 8, 100);
  const double best = best_rows(machine, 3.0, 8);
  for (const double pace : {4.0, 0.25, 2.0, 0.5, 4.0, 0.25}) {
    machine.fixed_ns *= pace;
    machine.row_ns *= pace;
    EXPECT_GT(use(budget, machine, 8, 150), 0.6 * best) << "at pace " << pace;
    EXPECT_LT(use(budget, machine, 8, 150), 1.1 * best) << "at pace " << pace;
  }
}

TEST(StepBudget, copes_with_a_pace_that_changes_by_the_step) {
  sdk::StepBudget budget(3.0);
  Machine machine;
  const double best = best_rows(machine, 3.0, 8);
  double rows = 0;
  for (int i = 0; i < 400; ++i) {
    // A third of all steps takes twice to five times as long.
    const uint32_t luck = i * 2654435761u >> 16;
    const double pace = luck % 3 == 0 ? 2.0 + luck % 4 : 1.0;
    Machine now{machine.fixed_ns * pace, machine.row_ns * pace, 0, machine.step};
    use(budget, now, 8, 1);
    rows += budget.rows(8, kMost);
    machine.step = now.step;
  }
  EXPECT_GT(rows / 400, 0.4 * best);
}

TEST(StepBudget, tries_large_steps_again_after_a_bad_one) {
  sdk::StepBudget budget(2.0);
  Machine machine;
  StepCost stalled = machine.run(0, 256);
  stalled.duration_ns *= 100;
  budget.observe(stalled);
  use(budget, machine, 8, 20);
  EXPECT_LT(budget.rows(8, kMost), 100u);
  use(budget, machine, 8, 400);
  EXPECT_GT(budget.rows(8, kMost), 100u);
}

TEST(StepBudget, asks_now_and_then_for_a_step_without_prompts) {
  sdk::StepBudget budget(2.0);
  Machine machine;
  budget.observe(machine.run(0, 100));
  EXPECT_FALSE(budget.ask_for_decoding_alone(2, 0, kMost));
  EXPECT_TRUE(budget.ask_for_decoding_alone(2, 8, kMost));
  EXPECT_FALSE(budget.ask_for_decoding_alone(3, 8, kMost)) << "it was asked for already";
  int asked = 0;
  for (uint64_t step = 3; step < 1703; ++step) {
    asked += budget.ask_for_decoding_alone(step, 8, kMost) ? 1 : 0;
  }
  EXPECT_EQ(asked, 100) << "every seventeenth";
}

TEST(StepBudget, does_not_ask_while_such_steps_come_anyway) {
  sdk::StepBudget budget(2.0);
  Machine machine;
  for (int i = 0; i < 1000; ++i) {
    budget.observe(machine.run(8, i % 10 == 0 ? 8 : 100));
    EXPECT_FALSE(budget.ask_for_decoding_alone(machine.step + 1, 8, kMost));
  }
}

TEST(StepBudget, takes_each_step_once) {
  sdk::StepBudget once(2.0), twice(2.0);
  Machine machine;
  for (int i = 0; i < 30; ++i) {
    StepCost cost = machine.run(4, i % 2 == 0 ? 4 : 100);
    cost.duration_ns += i * 100000;
    once.observe(cost);
    twice.observe(cost);
    twice.observe(cost);
    EXPECT_EQ(once.rows(4, kMost), twice.rows(4, kMost));
  }
}

TEST(StepBudget, takes_everything_where_time_stands_still) {
  sdk::StepBudget budget(2.0);
  Machine machine{.fixed_ns = 0, .row_ns = 0};
  use(budget, machine, 8, 20);
  EXPECT_EQ(budget.rows(8, 510), 510u);
}

TEST(CostCurve, goes_on_evenly_behind_its_last_point_and_never_falls) {
  sdk::CostCurve curve;
  EXPECT_TRUE(curve.empty());
  EXPECT_EQ(curve.duration_ns(5), 0);
  curve.add(10, 1000);
  EXPECT_EQ(curve.duration_ns(5), 1000);
  EXPECT_EQ(curve.duration_ns(20), 1000) << "flat while there is one point";
  curve.add(30, 1200);
  EXPECT_EQ(curve.duration_ns(20), 1100);
  EXPECT_EQ(curve.duration_ns(50), 1400);
  curve.add(100, 900);
  EXPECT_EQ(curve.duration_ns(100), 1200);
  EXPECT_EQ(curve.duration_ns(1000), 1200);
}

TEST(CostCurve, starts_at_an_anchor) {
  sdk::CostCurve curve;
  curve.add(4, 5000);
  curve.add(100, 2000);
  EXPECT_EQ(curve.duration_ns(50, {10, 1000}), 1000 + 1000 * 40 / 90.0);
  EXPECT_EQ(curve.duration_ns(190, {10, 1000}), 3000);
  EXPECT_EQ(curve.duration_ns(150, {120, 3000}), 3000) << "nothing is known behind the anchor";
}

}  // namespace
}  // namespace tenon
