// What adaptive drafts know of a machine is kept true, whatever they do at the moment: starts that
// were held up, rows that become dear and cheap again, and costs that drift.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plugins/drafter/dflash/scripted_machine.h"

namespace tenon {
namespace {

using scripted::Machine;
using scripted::Script;

constexpr double kDisturbed[] = {1.5, 2.0, 4.0};

std::string named(const Script& script) {
  return std::to_string(script.held_by) + " times as long, acceptance " +
         std::to_string(script.acceptance[0]) + ", pass " + std::to_string(script.pass) + ", " +
         std::to_string(script.acceptance.size()) + " sequences";
}

// As long as all steps have drafts, only a step without any tells what such a step takes.
TEST(KeptTrue, after_a_start_in_which_steps_without_drafts_were_held_up) {
  for (const double held_by : kDisturbed) {
    for (const double acceptance : {0.3, 0.5, 0.6}) {
      for (const double pass : {0.2, 0.3, 0.5}) {
        for (const double noise : {0.0, 0.2}) {
          const Script script{.row = 0.02,
                              .pass = pass,
                              .noise = noise,
                              .acceptance = {acceptance},
                              .held = {1},
                              .held_by = held_by};
          EXPECT_GE(Machine(script).run(3000), 0.98) << named(script);
        }
      }
    }
  }
}

TEST(KeptTrue, after_such_a_start_with_many_sequences) {
  for (const double held_by : kDisturbed) {
    for (const double acceptance : {0.3, 0.6}) {
      const Script script{.row = 0.05,
                          .pass = 0.3,
                          .acceptance = std::vector<double>(8, acceptance),
                          .held = {5, 9},
                          .held_by = held_by};
      EXPECT_GE(Machine(script).run(3000), 0.98) << named(script);
    }
  }
}

// And where drafts were: they are tried, and what they take is found out.
TEST(KeptTrue, after_a_start_in_which_steps_with_drafts_were_held_up) {
  for (const double held_by : kDisturbed) {
    const Script right{.row = 0.01, .pass = 0.05, .acceptance = {0.9}};
    Script script = right;
    script.held = {2, 3, 5, 9, 17};
    script.held_by = held_by;
    Machine machine(script);
    EXPECT_GE(machine.run(200), 0.98) << named(script);
    EXPECT_GE(machine.run(1000), 0.9 * Machine(right).run(1000)) << named(script);
  }
}

// A drafter's first passes are long: memory is new to them, and processors are at other work.
TEST(KeptTrue, after_first_passes_that_were_long) {
  for (const uint32_t cold : {1u, 2u, 3u}) {
    Script script{.row = 0.01, .pass = 0.2, .acceptance = {1.0}, .prompt = 300, .cold = cold};
    EXPECT_GE(Machine(script).run(200), 1.5) << cold;
    script.acceptance = {0.0};
    EXPECT_GE(Machine(script).run(1000), 0.98) << cold;
  }
}

TEST(KeptTrue, where_rows_become_dear_and_cheap_again) {
  for (const size_t batch : {1, 8}) {
    for (const double acceptance : {0.5, 0.8, 0.95}) {
      Machine machine({.row = 0.01,
                       .pass = 0.02,
                       .in_one_pass = true,
                       .acceptance = std::vector<double>(batch, acceptance)});
      const double gain = machine.run(500);
      for (int i = 0; i < 3; ++i) {
        machine.set_row(0.3);
        EXPECT_GE(machine.run(2000), 0.98) << batch << " sequences, acceptance " << acceptance;
        machine.set_row(0.01);
        EXPECT_GE(machine.run(1100), 0.98) << batch << " sequences, acceptance " << acceptance;
        EXPECT_GE(machine.run(300), 0.85 * gain)
            << "drafts come back: " << batch << " sequences, acceptance " << acceptance;
      }
    }
  }
}

TEST(KeptTrue, where_rows_are_dear_and_become_cheap) {
  for (const size_t batch : {1, 8}) {
    const Script script{.row = 1.0,
                        .pass = 0.02,
                        .in_one_pass = true,
                        .acceptance = std::vector<double>(batch, 0.9)};
    Machine machine(script);
    EXPECT_GE(machine.run(1000), 0.98) << batch;
    machine.set_row(0.01);
    EXPECT_GE(machine.run(1100), 0.98) << batch;
    EXPECT_GE(machine.run(300), 2.0) << batch;
  }
}

// What a step of few rows shows says little of one of many.
TEST(KeptTrue, where_only_the_first_rows_are_cheap) {
  for (const double acceptance : {0.3, 0.6, 0.9}) {
    for (const double steep : {0.2, 0.5}) {
      Machine machine(
          {.row = 0.01, .pass = 0.05, .acceptance = {acceptance}, .knee = 4, .steep = steep});
      for (int i = 0; i < 4; ++i) {
        machine.set_row(i % 2 == 0 ? 0.01 : 0.3);
        EXPECT_GE(machine.run(2000), 0.98)
            << "acceptance " << acceptance << ", " << steep << " after four rows, change " << i;
      }
    }
  }
}

TEST(KeptTrue, where_costs_drift) {
  for (const double acceptance : {0.3, 0.5, 0.8}) {
    for (const double pass : {0.05, 0.2}) {
      Machine machine({.row = 0.01, .pass = pass, .noise = 0.1, .acceptance = {acceptance}});
      machine.run(200);
      for (int i = 1; i <= 40; ++i) {
        const int far = i <= 20 ? i : 40 - i;
        machine.set_row(0.01 + 0.02 * far);
        EXPECT_GE(machine.run(250), 0.97)
            << "acceptance " << acceptance << ", pass " << pass << ", a row of " << 0.02 * far;
      }
    }
  }
}

// What looking costs where drafts do pay, and everything was right.
TEST(KeptTrue, for_less_than_a_hundredth) {
  Machine machine({.row = 0.005, .pass = 0.05, .in_one_pass = true, .acceptance = {1.0}});
  machine.run(500);
  // Nine tokens for one pass of 0.05 and nine rows of 0.005.
  EXPECT_GE(machine.run(4000), 0.99 * 9 * 1.005 / (1.045 + 0.05));
}

}  // namespace
}  // namespace tenon
