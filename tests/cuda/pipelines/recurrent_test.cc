// Models with recurrent layers in whole pipelines on the executor `cuda`: whatever composes one,
// however short its memory is, and from whichever state it starts, a request has the same tokens
// and the same digest of its logits.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/cuda/executor.h"
#include "core/exec/ref/executor.h"
#include "tests/cuda/rig/emulated_driver.h"
#include "tests/support/models/recurrent_pipelines.h"

namespace tenon::cuda::test {
namespace {

using tenon::test::Outcome;
using tenon::test::Overrides;

ExecutorFactories executors() {
  ExecutorFactories made;
  made["ref"] = [](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
    return make_ref_executor();
  };
  made["cuda"] = [](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
    return make_cuda_executor(std::make_shared<EmulatedDriver>());
  };
  return made;
}

class CudaRecurrentPipelines : public tenon::test::RecurrentPipelinesOn {
 protected:
  CudaRecurrentPipelines() : RecurrentPipelinesOn(executors(), {"executor.plugin=cuda"}) {}

  // A few of the requests: a device that is emulated takes its time.
  static std::vector<Request> some_requests() {
    std::vector<Request> few = requests();
    few.resize(4);
    for (Request& request : few) request.max_tokens /= 2;
    return few;
  }
  Outcome expected() {
    return run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, some_requests());
  }
};
INSTANTIATE_TEST_SUITE_P(Models, CudaRecurrentPipelines,
                         testing::Values("mamba", "granite4", "qwen3_next"));

TEST_P(CudaRecurrentPipelines, every_scheduler_gives_the_same_tokens_with_every_manager) {
  const Outcome all = expected();
  ASSERT_EQ(all.samples.size(), 4u);
  const Overrides ways[] = {
      {"scheduler.plugin=continuous", "kv_cache.plugin=paged"},
      {"scheduler.plugin=chunked", "kv_cache.plugin=radix", "executor.graph_memory=0"},
      {"scheduler.plugin=fair", "kv_cache.plugin=prefix", "engine.plan_ahead=1"}};
  for (const Overrides& overrides : ways) {
    SCOPED_TRACE(overrides[0] + " " + overrides[1]);
    EXPECT_EQ(run(overrides, some_requests()).samples, all.samples);
  }
}

TEST_P(CudaRecurrentPipelines, greedy_tokens_are_those_of_the_oracle) {
  const auto greedy = [] {
    std::vector<Request> few = some_requests();
    for (Request& request : few) request.sampling.temperature = 0.0f;
    return few;
  };
  const Outcome own = run({}, greedy()), oracle = run({"executor.plugin=ref"}, greedy());
  ASSERT_EQ(own.samples.size(), oracle.samples.size());
  for (size_t i = 0; i < own.samples.size(); ++i) {
    EXPECT_EQ(own.samples[i].first, oracle.samples[i].first) << i;
  }
}

TEST_P(CudaRecurrentPipelines, prompts_that_begin_alike_start_from_one_state_and_change_no_token) {
  const auto alike = [] {
    std::vector<Request> few = with_a_common_beginning();
    few.resize(3);
    for (Request& request : few) request.max_tokens = 6;
    return few;
  };
  const Outcome all = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, alike());
  for (const char* manager : {"prefix", "radix"}) {
    SCOPED_TRACE(manager);
    const Outcome outcome = run({"limits.max_sequences=2", "kv_cache.block_tokens=8",
                                 std::string("kv_cache.plugin=") + manager},
                                alike());
    EXPECT_EQ(outcome.samples, all.samples);
    EXPECT_GE(outcome.totals.reused_tokens, 32u);
  }
}

// Greedy answers that are long enough to repeat themselves.
TEST_P(CudaRecurrentPipelines, drafts_that_are_accepted_or_rejected_change_no_token) {
  const auto long_ones = [] {
    std::vector<Request> few = requests();
    few.resize(2);
    for (Request& request : few) {
      request.max_tokens = 60;
      request.sampling.temperature = 0.0f;
    }
    return few;
  };
  const Outcome all = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, long_ones());
  const Outcome outcome = run({"drafter.plugin=ngram", "kv_cache.plugin=paged"}, long_ones());
  EXPECT_EQ(outcome.samples, all.samples);
  EXPECT_GT(outcome.totals.drafts.tokens, 0u);
}

// Slots for three sequences and a half; where layers attend, too few tokens for those.
TEST_P(CudaRecurrentPipelines, memory_that_is_short_preempts_sequences_and_changes_no_token) {
  const Outcome all = expected();
  const Overrides little{memory_for(7, 96), "kv_cache.block_tokens=4",
                         "scheduler.plugin=continuous", "kv_cache.plugin=paged"};
  const Outcome again = run(little, some_requests());
  EXPECT_EQ(again.samples, all.samples);
  Overrides swap = little;
  swap.insert(swap.end(), {"kv_cache.swap_memory=1MiB", "scheduler.options.preempt=swap"});
  const Outcome swapped = run(swap, some_requests());
  EXPECT_EQ(swapped.samples, all.samples);
  EXPECT_GT(again.totals.preemptions, 0u);
  EXPECT_GT(swapped.totals.swapped_in_tokens, 0u);
}

class CudaRecurrentAdapters : public CudaRecurrentPipelines {};
INSTANTIATE_TEST_SUITE_P(Models, CudaRecurrentAdapters, testing::Values("granite4"));

TEST_P(CudaRecurrentAdapters, are_refused_by_the_executors_name) {
  const std::string why =
      refusal({"adapters.one=" + source_folder() + "/tests/golden/adapters/granite4"});
  EXPECT_NE(why.find("there are [adapters], but the executor 'cuda' runs the base model only"),
            std::string::npos)
      << why;
}

}  // namespace
}  // namespace tenon::cuda::test
