// How the engine calls a sampler: the rig's is strict, so that every test holds it to the promise;
// here is that it would notice.
#include <gtest/gtest.h>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

// Prompts that are scored, several samples, drafts: whatever is handed to a sampler.
void submit_all_kinds(Rig& rig, uint32_t vocabulary) {
  TestRandom random(31);
  for (uint32_t length : {50u, 3u, 21u, 34u}) {
    Request request;
    request.prompt = random.tokens(length, vocabulary);
    request.max_tokens = 12;
    request.samples = 2;
    request.prompt_logprobs = true;
    request.sampling.logprobs = 2;
    request.sampling.seed = length;
    rig.submit(request);
  }
}

TEST(SamplerCalls, never_overlap_for_rows_of_one_sequence) {
  for (const uint32_t workers : {2u, 4u, 16u}) {
    RigOptions options;
    options.workers = workers;
    ToyDrafter drafter({options.vocabulary, options.window_tokens}, 4, 3);
    options.drafter = &drafter;
    Rig rig(options);
    submit_all_kinds(rig, options.vocabulary);
    rig.run();
    EXPECT_GT(drafter.accepted(), 0u);
  }
}

TEST(SamplerCalls, of_the_second_model_run_under_the_state_of_the_workers) {
  for (const bool by_rejection : {false, true}) {
    RigOptions options;
    options.verify_by_rejection = by_rejection;
    options.drafter_plugin = "draft_model";
    options.drafter_options = "adaptive=false max_draft_tokens=3";
    options.second_model = ToyModel{options.vocabulary, 3, 4};
    Rig rig(options);
    submit_all_kinds(rig, options.vocabulary);
    rig.run();
    EXPECT_GT(rig.engine().totals().drafts.tokens, 0u);
  }
}

TEST(StrictSampler, complains_of_rows_of_one_sequence_on_two_workers) {
  LoadedPlugin<Sampler> standard("sampler", "standard");
  StrictSampler strict(standard.get());
  ASSERT_TRUE(strict.begin(7, {}, kNoSeq).ok());
  FakeDevice device({8, 0});
  const float logits[8] = {};
  SampleRow row;
  row.seq = 7;
  row.logits = logits;
  row.vocabulary = 8;
  const auto sample = [&](uint32_t) {
    SampleResult result;
    EXPECT_TRUE(strict.sample({&row, 1}, {&result, 1}).ok());
  };
  device.share_out(1, sample);
  device.share_out(1, sample);
  EXPECT_EQ(strict.complaint(), "");
  device.share_out(2, sample);
  EXPECT_EQ(strict.complaint(), "rows of sequence 7 were given to two workers at once");
}

TEST(StrictSampler, complains_of_rows_that_no_worker_samples) {
  LoadedPlugin<Sampler> standard("sampler", "standard");
  StrictSampler strict(standard.get());
  ASSERT_TRUE(strict.begin(7, {}, kNoSeq).ok());
  const float logits[8] = {};
  float probs[8] = {};
  SampleRow row;
  row.seq = 7;
  row.logits = logits;
  row.vocabulary = 8;
  EXPECT_TRUE(strict.distribution(row, probs).ok());
  EXPECT_EQ(strict.complaint(), "sequence 7 was sampled outside the workers");
}

}  // namespace
}  // namespace tenon
