// Drafts of heads in whole pipelines on the executor `cuda`, as chains and as trees: whatever
// composes one, they change no token and no digest.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/cuda/executor.h"
#include "tests/cuda/rig/emulated_driver.h"
#include "tests/support/models/recurrent_pipelines.h"

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

class CudaDrafts : public tenon::test::RecurrentPipelinesOn {
 protected:
  CudaDrafts() : RecurrentPipelinesOn(executors(), {"executor.plugin=cuda", "kv_cache.dtype=f32"}) {
    digests_ = true;
  }

  // A few of the requests: a device that is emulated takes its time.
  static std::vector<Request> few() {
    std::vector<Request> few = requests();
    few.resize(4);
    for (Request& request : few) {
      request.max_tokens /= 2;
      for (TokenId& token : request.prompt) token = 3 + token % 44;
    }
    return few;
  }
  static Overrides drafting(const std::string& plugin, const std::string& tree,
                            Overrides more = {}) {
    Overrides all = {"drafter.plugin=" + plugin, "drafter.options.adaptive=false",
                     "drafter.options.tree=\"" + tree + "\""};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Overrides eagle3(const std::string& tree, Overrides more = {}) {
    more.push_back("drafter.model=" + source_folder() + "/tests/golden/heads/llama_tied");
    more.emplace_back("drafter.options.norm_before_residual=no");
    return drafting("eagle3", tree, std::move(more));
  }

  void expect_the_same(const Overrides& drafter, const Outcome& alone) {
    const Outcome outcome = run(drafter, few());
    EXPECT_EQ(outcome.samples, alone.samples);
    EXPECT_GT(outcome.totals.drafts.tokens, 20u);
    EXPECT_GT(outcome.totals.drafts.accepted, 0u);
  }
};

class CudaHeadDrafts : public CudaDrafts {};
INSTANTIATE_TEST_SUITE_P(Models, CudaHeadDrafts, testing::Values("llama_tied"));

TEST_P(CudaHeadDrafts, chains_and_trees_change_no_token_with_any_manager) {
  const Outcome alone = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, few());
  ASSERT_EQ(alone.samples.size(), 4u);
  ASSERT_NE(alone.samples.front().second, 0u) << "the digest";
  const std::pair<const char*, Overrides> ways[] = {
      {"", {"scheduler.plugin=continuous", "kv_cache.plugin=paged"}},
      {"2,2,1", {"scheduler.plugin=continuous", "kv_cache.plugin=paged"}},
      {"2,2", {"scheduler.plugin=chunked", "kv_cache.plugin=radix"}},
      {"grow", {"scheduler.plugin=fair", "kv_cache.plugin=prefix", "engine.plan_ahead=1"}},
      {"3,1", {"scheduler.plugin=static", "kv_cache.plugin=naive"}}};
  for (const auto& [tree, way] : ways) {
    SCOPED_TRACE(std::string(tree) + " " + way[0] + " " + way[1]);
    expect_the_same(eagle3(tree, way), alone);
  }
}

}  // namespace
}  // namespace tenon::cuda::test
