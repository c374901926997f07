// What an engine tells an observer about its steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/engine/records/step_observer.h"
#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

class Notebook final : public StepObserver {
 public:
  bool wants_steps() noexcept override { return ++asked, listening; }
  void on_step(ObservedStep step) override { steps.push_back(std::move(step)); }

  bool listening = true;
  uint64_t asked = 0;
  std::vector<ObservedStep> steps;
};

RigOptions watched_by(Notebook& notebook) {
  RigOptions options;
  options.engine.observer = &notebook;
  options.engine.plan_ahead = false;
  return options;
}

std::vector<TokenId> prompt_of(uint32_t tokens, TokenId first = 1) {
  std::vector<TokenId> prompt(tokens);
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

std::vector<BlockId> blocks_of(const ObservedStep& step, size_t sequence) {
  const ObservedSequence& of = step.sequences.at(sequence);
  const auto from = step.blocks.begin() + of.first_block;
  return {from, from + of.block_count};
}

TEST(Observer, is_told_a_prefill_and_then_decodes) {
  Notebook notebook;
  Rig rig(watched_by(notebook));
  rig.submit(greedy_request(prompt_of(20), 3));
  rig.run();
  ASSERT_EQ(notebook.steps.size(), 3u);
  const ObservedSequence& prefill = notebook.steps[0].sequences.at(0);
  EXPECT_EQ(prefill.prefill_rows, 20u);
  EXPECT_EQ(prefill.decode_rows, 0u);
  EXPECT_EQ(prefill.prompt_tokens, 20u);
  EXPECT_EQ(prefill.known_tokens, 21u);
  EXPECT_EQ(prefill.computed_tokens, 20u);
  EXPECT_EQ(prefill.new_tokens, 1u);
  EXPECT_GE(prefill.first_token_ns, 0);
  EXPECT_EQ(prefill.gap_ns, -1);
  const ObservedSequence& decode = notebook.steps[1].sequences.at(0);
  EXPECT_EQ(decode.prefill_rows, 0u);
  EXPECT_EQ(decode.decode_rows, 1u);
  EXPECT_EQ(decode.first_token_ns, -1);
  EXPECT_GE(decode.gap_ns, 0);
  EXPECT_EQ(decode.state, ObservedState::running);
  EXPECT_EQ(notebook.steps[2].sequences.at(0).state, ObservedState::ended);
}

TEST(Observer, is_told_the_chunks_of_a_prompt) {
  Notebook notebook;
  RigOptions options = watched_by(notebook);
  options.scheduler_options = "chunk_tokens=8";
  Rig rig(options);
  rig.submit(greedy_request(prompt_of(20), 1));
  rig.run();
  std::vector<uint32_t> chunks;
  for (const ObservedStep& step : notebook.steps) {
    chunks.push_back(step.sequences.at(0).prefill_rows);
  }
  EXPECT_EQ(chunks, (std::vector<uint32_t>{8, 8, 4}));
}

TEST(Observer, is_told_drafts_and_how_many_were_kept) {
  Notebook notebook;
  RigOptions options = watched_by(notebook);
  ToyDrafter drafter(options.model(), 4, 3);
  options.drafter = &drafter;
  Rig rig(options);
  rig.submit(greedy_request(prompt_of(5), 30));
  rig.run();
  uint64_t drafts = 0, kept = 0;
  for (const ObservedStep& step : notebook.steps) {
    for (const ObservedSequence& sequence : step.sequences) {
      drafts += sequence.drafts;
      kept += sequence.kept_drafts;
      EXPECT_LE(sequence.kept_drafts, sequence.drafts);
      if (sequence.state == ObservedState::running) {
        EXPECT_EQ(sequence.new_tokens, sequence.kept_drafts + 1);
      }
    }
  }
  EXPECT_EQ(drafts, drafter.drafted());
  EXPECT_EQ(kept, rig.engine().totals().drafts.accepted);
  EXPECT_GT(kept, 0u);
  EXPECT_LT(kept, drafts);
}

TEST(Observer, is_told_which_blocks_a_sequence_holds) {
  Notebook notebook;
  Rig rig(watched_by(notebook));
  rig.submit(greedy_request(prompt_of(20), 2));
  rig.submit(greedy_request(prompt_of(40, 7), 2));
  rig.run();
  const ObservedStep& step = notebook.steps.at(0);
  ASSERT_EQ(step.sequences.size(), 2u);
  EXPECT_EQ(step.block_tokens, 16u);
  EXPECT_EQ(blocks_of(step, 0).size(), 2u);
  EXPECT_EQ(blocks_of(step, 1).size(), 3u);
  std::vector<BlockId> all = step.blocks;
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "nothing is shared";
  EXPECT_EQ(step.usage.total_tokens, 4096u);
}

TEST(Observer, sees_samples_share_the_blocks_of_their_prompt) {
  Notebook notebook;
  Rig rig(watched_by(notebook));
  Request request = greedy_request(prompt_of(40), 4);
  request.samples = 3;
  request.sampling.temperature = 1.0f;
  rig.submit(std::move(request));
  rig.run();
  const ObservedStep& step = notebook.steps.at(1);
  ASSERT_EQ(step.sequences.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<BlockId> blocks = blocks_of(step, i);
    ASSERT_GE(blocks.size(), 3u);
    EXPECT_EQ(blocks[0], step.blocks[0]);
    EXPECT_EQ(blocks[1], step.blocks[1]);
  }
  // A sample that forks has its parent's row, and computes nothing itself.
  const auto& forked = notebook.steps.at(0).sequences;
  EXPECT_EQ(std::count_if(forked.begin(), forked.end(),
                          [](const ObservedSequence& s) { return s.prefill_rows > 0; }),
            1);
}

TEST(Observer, sees_who_waits_in_order_of_arrival) {
  Notebook notebook;
  RigOptions options = watched_by(notebook);
  options.max_sequences = 1;
  Rig rig(options);
  for (TokenId first : {1, 2, 3}) rig.submit(greedy_request(prompt_of(4, first), 2));
  ASSERT_TRUE(rig.engine().step().ok());
  const auto& sequences = notebook.steps.at(0).sequences;
  ASSERT_EQ(sequences.size(), 3u);
  EXPECT_EQ(sequences[0].state, ObservedState::running);
  EXPECT_EQ(sequences[1].state, ObservedState::waiting);
  EXPECT_EQ(sequences[1].block_count, 0u);
  EXPECT_LT(sequences[1].request, sequences[2].request);
  rig.run();
}

TEST(Observer, sees_preemptions) {
  Notebook notebook;
  RigOptions options = watched_by(notebook);
  options.kv_tokens = 128;
  options.context_tokens = 120;
  Rig rig(options);
  for (TokenId first : {1, 2, 3}) rig.submit(greedy_request(prompt_of(16, first), 60));
  rig.run();
  uint64_t preemptions = 0;
  uint32_t most = 0;
  for (const ObservedStep& step : notebook.steps) {
    preemptions += step.record.preemptions;
    for (const ObservedSequence& sequence : step.sequences) {
      most = std::max(most, sequence.preemptions);
    }
  }
  EXPECT_GT(preemptions, 0u);
  EXPECT_EQ(preemptions, rig.engine().totals().preemptions);
  EXPECT_GT(most, 0u);
}

TEST(Observer, is_told_that_a_cancelled_sequence_is_gone) {
  Notebook notebook;
  Rig rig(watched_by(notebook));
  const RequestId id = rig.submit(greedy_request(prompt_of(4), 100));
  ASSERT_TRUE(rig.engine().step().ok());
  rig.engine().cancel(id);
  rig.run();
  EXPECT_TRUE(notebook.steps.back().sequences.empty());
}

TEST(Observer, that_does_not_listen_is_asked_and_told_nothing) {
  Notebook notebook;
  notebook.listening = false;
  Rig rig(watched_by(notebook));
  rig.submit(greedy_request(prompt_of(4), 10));
  rig.run();
  EXPECT_GE(notebook.asked, 10u);
  EXPECT_TRUE(notebook.steps.empty());
}

TEST(Observer, changes_no_answer_where_steps_are_planned_ahead) {
  Notebook notebook;
  RigOptions options = watched_by(notebook);
  options.engine.plan_ahead = true;
  Rig rig(options);
  const Request request = greedy_request(prompt_of(20), 12);
  const RequestId id = rig.submit(request);
  rig.run();
  EXPECT_EQ(rig.result(id).ids(), oracle(options.model(), request, 0, options.context_tokens).ids);
  uint32_t tokens = 0;
  for (const ObservedStep& step : notebook.steps) {
    for (const ObservedSequence& sequence : step.sequences) tokens += sequence.new_tokens;
  }
  EXPECT_EQ(tokens, 12u);
}

}  // namespace
}  // namespace tenon
