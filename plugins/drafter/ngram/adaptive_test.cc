// The option that all drafters share, held against scripted costs and acceptance.
#include <gtest/gtest.h>
#include <tenon/sdk/drafter/adaptive_drafts.h>

#include <numeric>
#include <random>
#include <vector>

namespace tenon {
namespace {

using sdk::AdaptiveDrafts;

// A machine on which a step takes base + row · rows, a drafter level · depth, and drafts are right
// with a probability of their own.
struct Script {
  double base = 1e6;
  double row = 1e4;
  double level = 0;
  double acceptance = 0.9;
  uint32_t available = 8;
  double noise = 0;
};

class Machine {
 public:
  Machine(uint32_t sequences, bool shadowed) : drafts_(true, shadowed), sequences_(sequences) {
    for (SeqId seq = 0; seq < sequences; ++seq) drafts_.begin(seq);
  }

  // Returns the tokens a second over those without drafts, over `steps` steps.
  double steps(const Script& script, uint32_t steps, bool shadowed) {
    double time = 0, plain = 0;
    drafted_ = 0;
    for (uint32_t i = 0; i < steps; ++i) {
      const double tokens = step(script, shadowed, time);
      plain += tokens * (script.base + script.row * sequences_) / sequences_;
    }
    return plain / time;
  }
  uint64_t drafted() const { return drafted_; }
  // Of so many texts that begin now, those that are seen along their prompt.
  uint32_t seen(uint32_t texts) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < texts; ++i) count += drafts_.sees_next() ? 1 : 0;
    return count;
  }

 private:
  double step(const Script& script, bool shadowed, double& time) {
    std::vector<DraftRequest> requests(sequences_);
    for (SeqId seq = 0; seq < sequences_; ++seq) requests[seq].seq = seq;
    std::vector<uint32_t> offered(sequences_, script.available);
    drafts_.choose(requests, offered);
    double tokens = 0;
    uint32_t rows = sequences_, depth = 0;
    for (SeqId seq = 0; seq < sequences_; ++seq) {
      if (offered[seq] > 0) drafts_.granted(offered[seq]);
      uint32_t right = 0;
      while (right < script.available && uniform_(random_) < script.acceptance) ++right;
      const uint32_t kept = std::min(right, offered[seq]);
      // One token after the drafts shows whether the next proposal would have been right.
      const uint32_t seen = shadowed ? std::min(offered[seq] + 1, script.available) : offered[seq];
      drafts_.learn(seq, std::min(std::min(right, seen) + 1, seen), std::min(right, seen));
      tokens += 1 + kept;
      rows += offered[seq];
      depth = std::max(depth, offered[seq]);
    }
    drafted_ += rows - sequences_;
    const double spread = 1 + script.noise * (uniform_(random_) - 0.5);
    const double verify = (script.base + script.row * rows) * spread;
    const double draft = script.level * depth;
    drafts_.measured({{.step_id = 1,
                       .rows = rows,
                       .sequences = sequences_,
                       .logits_rows = rows,
                       .duration_ns = static_cast<int64_t>(verify + draft)},
                      rows - sequences_,
                      static_cast<int64_t>(draft)});
    time += (script.base + script.row * rows) + draft;
    return tokens;
  }

  AdaptiveDrafts drafts_;
  uint32_t sequences_;
  std::mt19937 random_{7};
  std::uniform_real_distribution<double> uniform_{0, 1};
  uint64_t drafted_ = 0;
};

TEST(Adaptive, offers_everything_while_nothing_was_measured) {
  AdaptiveDrafts drafts(true, false);
  drafts.begin(0);
  const DraftRequest request{.seq = 0, .history = {}, .max_tokens = 5, .key = {}};
  uint32_t offered = 5;
  drafts.choose({&request, 1}, {&offered, 1});
  EXPECT_EQ(offered, 5u);
}

TEST(Adaptive, leaves_offers_alone_where_it_is_switched_off) {
  AdaptiveDrafts drafts(false, false);
  drafts.begin(0);
  for (int i = 0; i < 50; ++i) {
    drafts.learn(0, 1, 0);
    drafts.measured(
        {{.step_id = 1, .rows = 4, .sequences = 1, .logits_rows = 4, .duration_ns = 4000000},
         3,
         0});
  }
  const DraftRequest request{.seq = 0, .history = {}, .max_tokens = 5, .key = {}};
  uint32_t offered = 5;
  drafts.choose({&request, 1}, {&offered, 1});
  EXPECT_EQ(offered, 5u);
}

TEST(Adaptive, drafts_much_where_drafts_are_right_and_rows_are_cheap) {
  Machine machine(1, true);
  machine.steps({.acceptance = 0.95}, 50, true);
  EXPECT_GT(machine.steps({.acceptance = 0.95}, 200, true), 4.0);
  EXPECT_GT(machine.drafted(), 200u * 6);
}

TEST(Adaptive, gives_up_where_drafts_are_wrong) {
  for (const uint32_t sequences : {1u, 4u, 16u, 32u}) {
    for (const bool shadowed : {true, false}) {
      // Every row costs as much as in a batch that keeps the processor busy.
      const Script script{.base = 1e6, .row = 5e4, .acceptance = 0.02, .noise = 0.3};
      Machine machine(sequences, shadowed);
      EXPECT_GT(machine.steps(script, 1000, shadowed), 0.97) << sequences << shadowed;
    }
  }
}

TEST(Adaptive, gives_up_where_rows_are_dear) {
  const Script script{.base = 1e5, .row = 1e6, .acceptance = 0.6};
  Machine machine(8, true);
  EXPECT_GT(machine.steps(script, 1000, true), 0.97);
}

TEST(Adaptive, gives_up_where_the_draft_model_is_too_slow) {
  const Script script{.row = 2e4, .level = 8e5, .acceptance = 0.7};
  Machine machine(1, false);
  EXPECT_GT(machine.steps(script, 2000, false), 0.97);
}

TEST(Adaptive, comes_back_when_drafts_become_right) {
  for (const bool shadowed : {true, false}) {
    Machine machine(2, shadowed);
    machine.steps({.acceptance = 0.0}, 300, shadowed);
    // The tries are far apart by now.
    machine.steps({.acceptance = 0.95}, 1100, shadowed);
    EXPECT_GT(machine.steps({.acceptance = 0.95}, 200, shadowed), 3.0) << shadowed;
  }
}

TEST(Adaptive, sees_few_prompts_while_drafts_do_not_pay) {
  const Script wrong{.base = 1e6, .row = 5e4, .acceptance = 0.02};
  const Script right{.acceptance = 0.95};
  Machine machine(8, false);
  EXPECT_EQ(machine.seen(10), 10u) << "nothing is known";
  machine.steps(right, 100, false);
  EXPECT_EQ(machine.seen(10), 10u);
  machine.steps(wrong, 300, false);
  EXPECT_EQ(machine.seen(120), 4u) << "8, 16, 32 and 64 after the one before";
  machine.steps(right, 1100, false);
  EXPECT_EQ(machine.seen(10), 10u);
  machine.steps(wrong, 300, false);
  EXPECT_EQ(machine.seen(8), 1u) << "it begins with 8 again";
  AdaptiveDrafts always(false, false);
  EXPECT_TRUE(always.sees_next()) << "switched off";
}

TEST(Adaptive, follows_a_machine_that_changes_its_pace) {
  Machine machine(1, true);
  machine.steps({.acceptance = 0.9}, 200, true);
  machine.steps({.base = 2e6, .row = 2e4, .acceptance = 0.9}, 100, true);
  EXPECT_GT(machine.steps({.base = 2e6, .row = 2e4, .acceptance = 0.9}, 200, true), 3.0);
}

TEST(Adaptive, gives_drafts_to_the_sequence_whose_drafts_are_right) {
  AdaptiveDrafts drafts(true, true);
  for (SeqId seq : {0u, 1u}) drafts.begin(seq);
  for (int i = 0; i < 40; ++i) {
    drafts.learn(0, 4, 4);
    drafts.learn(1, 1, 0);
    drafts.measured(
        {{.step_id = 1, .rows = 2, .sequences = 2, .logits_rows = 2, .duration_ns = 1000000},
         0,
         0});
  }
  const DraftRequest requests[] = {{.seq = 0, .history = {}, .max_tokens = 4, .key = {}},
                                   {.seq = 1, .history = {}, .max_tokens = 4, .key = {}}};
  uint32_t offered[] = {4, 4};
  drafts.choose(requests, offered);
  EXPECT_EQ(offered[0], 4u);
  EXPECT_EQ(offered[1], 0u);
}

TEST(StepTimes, learns_what_rows_cost) {
  sdk::StepTimes times;
  for (uint32_t i = 0; i < 200; ++i) {
    for (const uint32_t rows : {1u, 5u, 9u}) {
      times.learn({{.step_id = 1,
                    .rows = rows,
                    .sequences = 1,
                    .logits_rows = rows,
                    .duration_ns = 1000000 + 100000 * static_cast<int64_t>(rows)},
                   0,
                   0},
                  0, true);
    }
  }
  EXPECT_NEAR(times.of(5, 0) / times.of(1, 0), 1.5 / 1.1, 0.02);
  EXPECT_NEAR(times.of(3, 0) / times.of(1, 0), 1.3 / 1.1, 0.02);  // between those seen
}

TEST(StepTimes, leaves_out_steps_that_compute_prompts) {
  sdk::StepTimes times;
  times.learn(
      {{.step_id = 1, .rows = 600, .sequences = 2, .logits_rows = 2, .duration_ns = 900000000},
       0,
       0},
      0, true);
  EXPECT_FALSE(times.known());
}

TEST(StepTimes, tells_the_drafters_time_from_the_models) {
  sdk::StepTimes times;
  for (uint32_t i = 0; i < 100; ++i) {
    times.learn(
        {{.step_id = 1, .rows = 1, .sequences = 1, .logits_rows = 1, .duration_ns = 1010000},
         0,
         10000},
        0, true);
    times.learn(
        {{.step_id = 1, .rows = 5, .sequences = 1, .logits_rows = 5, .duration_ns = 1410000},
         4,
         410000},
        4, true);
  }
  EXPECT_NEAR(times.of(1, 0), 1010000, 20000);
  EXPECT_NEAR(times.of(5, 4) - times.of(5, 0), 400000, 20000);
}

}  // namespace
}  // namespace tenon
