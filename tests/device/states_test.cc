// Recurrent layers on the late device: rolling drafts back, forking and swapping are a choice of
// slots, and give the bits of computing the tokens anew.
#include <gtest/gtest.h>

#include <vector>

#include "tests/device/sequences.h"
#include "tests/device/small_world.h"
#include "tests/device/step_results.h"

namespace tenon::test {
namespace {

WorldOptions recurrent_world() {
  WorldOptions options;
  options.config.layers = 3;
  options.config.window_tokens = {0, 5, 0};
  options.block_tokens = 5;
  options.recurrent = {0, 2};
  return options;
}

class States : public testing::Test {
 protected:
  // The step that was opened and fed, on the device.
  std::vector<float> run(Want want = Want::last) {
    const BatchView& batch = sequences_.close(want);
    const StepValues values =
        run_step(machine_.executor(), sequences_.moves(), batch, world_.shape.hidden);
    EXPECT_EQ(values.error, "");
    return values.logits;
  }
  std::vector<float> compute_all(SeqId seq) {
    sequences_.open();
    EXPECT_TRUE(sequences_.feed({.seq = seq, .known = sequences_.left(seq)}));
    std::vector<float> logits = run();
    sequences_.finish();
    return logits;
  }
  // The logits after the last of these tokens, computed in one step by a sequence of their own.
  std::vector<float> expected_behind(std::vector<TokenId> tokens) {
    const SeqId seq = sequences_.begin(std::move(tokens));
    std::vector<float> logits = compute_all(seq);
    sequences_.end(seq);
    return logits;
  }
  std::vector<float> next(SeqId seq, TokenId token) {
    sequences_.append(seq, token);
    return compute_all(seq);
  }

  SmallWorld world_{recurrent_world()};
  Machine machine_{world_, Side::late};
  Sequences sequences_{world_, "paged"};
};

TEST_F(States, rejected_drafts_leave_the_state_behind_the_last_token_that_was_kept) {
  const SeqId seq = sequences_.begin({1, 2, 3, 4, 5, 6, 7});
  compute_all(seq);
  for (uint32_t accepted = 0; accepted <= 3; ++accepted) {
    sequences_.append(seq, static_cast<TokenId>(20 + accepted));
    sequences_.open();
    ASSERT_TRUE(sequences_.feed({.seq = seq, .known = 1, .drafts = {30, 31, 32}}));
    run();
    std::vector<uint32_t> kept;
    for (uint32_t d = 0; d < accepted; ++d) kept.push_back(d);
    sequences_.resolve(seq, kept);
    sequences_.finish();
    const std::vector<float> logits = next(seq, 9);
    EXPECT_TRUE(same_floats(logits, expected_behind(sequences_.tokens(seq)))) << accepted;
  }
}

TEST_F(States, a_fork_goes_on_from_its_parents_state_while_the_parent_goes_elsewhere) {
  const SeqId parent = sequences_.begin({1, 2, 3, 4, 5, 6});
  compute_all(parent);
  const SeqId child = sequences_.begin({}, parent);
  next(parent, 11);
  const std::vector<float> of_child = next(child, 12);
  const std::vector<float> of_parent = next(parent, 13);
  EXPECT_TRUE(same_floats(of_child, expected_behind(sequences_.tokens(child))));
  EXPECT_TRUE(same_floats(of_parent, expected_behind(sequences_.tokens(parent))));
}

TEST_F(States, a_sequence_that_was_swapped_out_goes_on_with_its_state) {
  const SeqId seq = sequences_.begin({1, 2, 3, 4, 5, 6});
  compute_all(seq);
  ASSERT_TRUE(sequences_.preempt(seq, ReleaseHow::swap));
  expected_behind({7, 7, 7, 7, 7, 7, 7, 7});  // others use its memory meanwhile
  const std::vector<float> logits = next(seq, 12);
  EXPECT_TRUE(same_floats(logits, expected_behind(sequences_.tokens(seq))));
}

TEST_F(States, a_prompt_in_chunks_gives_the_bits_of_one_step) {
  const SeqId seq = sequences_.begin({1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const uint32_t chunk : {2u, 1u, 4u}) {
    sequences_.open();
    ASSERT_TRUE(sequences_.feed({.seq = seq, .known = chunk}));
    run(Want::none);
    sequences_.finish();
  }
  const std::vector<float> logits = compute_all(seq);
  EXPECT_TRUE(same_floats(logits, expected_behind(sequences_.tokens(seq))));
}

}  // namespace
}  // namespace tenon::test
