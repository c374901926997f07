// Trees of drafts on the executor `cuda`, computed by a second model on the same device: they
// change no token and no digest.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/exec/cuda/executor.h"
#include "tests/cuda/emulated_driver.h"
#include "tests/support/recurrent_pipelines.h"

namespace tenon::cuda::test {
namespace {

using tenon::test::Outcome;
using tenon::test::Overrides;

ExecutorFactories executors() {
  ExecutorFactories made;
  made["cuda"] = [](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
    return make_cuda_executor(std::make_shared<EmulatedDriver>());
  };
  return made;
}

class CudaDraftTrees : public tenon::test::RecurrentPipelinesOn {
 protected:
  CudaDraftTrees() : RecurrentPipelinesOn(executors(), {"executor.plugin=cuda"}) {
    digests_ = true;
  }
};
INSTANTIATE_TEST_SUITE_P(Models, CudaDraftTrees, testing::Values("llama_tied"));

TEST_P(CudaDraftTrees, give_the_tokens_and_digests_of_none) {
  const auto few = [] {
    std::vector<Request> some = requests();
    some.resize(3);
    return some;
  };
  const Outcome all = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, few());
  ASSERT_EQ(all.samples.size(), 3u);
  for (const char* tree : {"2,1", "grow"}) {
    SCOPED_TRACE(tree);
    const Outcome outcome =
        run({"drafter.plugin=draft_model", "drafter.model=" + golden_models() + GetParam(),
             "drafter.options.adaptive=false", "drafter.options.max_draft_tokens=5",
             std::string("drafter.options.tree=\"") + tree + "\"", "kv_cache.plugin=paged"},
            few());
    EXPECT_EQ(outcome.samples, all.samples);
    EXPECT_GT(outcome.totals.drafts.accepted, 10u);
  }
}

}  // namespace
}  // namespace tenon::cuda::test
