// Drafts of heads in whole pipelines on the executor `cuda`, as chains and as trees: whatever
// composes one, they change no token and no digest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/cuda/executor.h"
#include "tests/cuda/rig/emulated_driver.h"
#include "tests/support/models/random_head.h"
#include "tests/support/models/recurrent_pipelines.h"

namespace tenon::cuda::test {
namespace {

using tenon::test::Outcome;
using tenon::test::Overrides;
using tenon::test::RandomHead;
using testing::HasSubstr;

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
    // One of the models has 19 tokens, the others 47 at least.
    const TokenId tokens = std::string(GetParam()).ends_with("ernie4_5_moe") ? 16 : 44;
    std::vector<Request> few = requests();
    few.resize(4);
    for (Request& request : few) {
      request.max_tokens /= 2;
      for (TokenId& token : request.prompt) token = 3 + token % tokens;
    }
    return few;
  }
  static constexpr const char* kNoOption = "-";
  static Overrides drafting(const std::string& plugin, const std::string& tree,
                            Overrides more = {}) {
    Overrides all = {"drafter.plugin=" + plugin, "drafter.options.adaptive=false"};
    if (tree != kNoOption) all.push_back("drafter.options.tree=\"" + tree + "\"");
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Overrides eagle3(const std::string& tree, Overrides more = {}) {
    more.push_back("drafter.model=" + source_folder() + "/tests/golden/heads/llama_tied");
    more.emplace_back("drafter.options.norm_before_residual=no");
    return drafting("eagle3", tree, std::move(more));
  }

  // `kept`: whether some drafts are; models of random weights may never agree with theirs.
  void expect_the_same(const Overrides& drafter, const Outcome& alone, bool kept = true) {
    const Outcome outcome = run(drafter, few());
    EXPECT_EQ(outcome.samples, alone.samples);
    EXPECT_GT(outcome.totals.drafts.tokens, 10u);
    EXPECT_TRUE(!kept || outcome.totals.drafts.accepted > 0);
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

// What drafts otherwise: heads with random weights, and a second model that is the target itself.
TEST_P(CudaHeadDrafts, drafters_of_other_kinds_change_no_token) {
  const Outcome alone = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, few());
  const tenon::test::HeadTarget target = {32, 99, 2, 96};
  const RandomHead eagle("eagle", target, 1), parallel("peagle", target, 1),
      medusa("medusa", target, 1);
  const auto model = [](const std::string& path) { return "drafter.model=" + path; };
  const std::string itself = golden_models() + GetParam();
  const std::pair<const char*, Overrides> ways[] = {
      {"eagle", drafting("eagle3", "", {model(eagle.path())})},
      {"eagle, tree", drafting("eagle3", "2,2", {model(eagle.path())})},
      {"eagle, grown", drafting("eagle3", "grow", {model(eagle.path()), "kv_cache.plugin=radix"})},
      {"peagle", drafting("eagle3", "", {model(parallel.path())})},
      {"medusa", drafting("medusa", kNoOption, {model(medusa.path())})},
      {"draft_model", drafting("draft_model", "", {model(itself), "scheduler.plugin=chunked"})},
      {"draft_model, tree", drafting("draft_model", "3,1,1", {model(itself)})}};
  for (const auto& [name, way] : ways) {
    SCOPED_TRACE(name);
    expect_the_same(way, alone);
  }
}

// What is drawn is drawn again, whatever it is judged by.
TEST_P(CudaHeadDrafts, drafts_that_are_judged_otherwise_leave_greedy_answers) {
  const Outcome alone = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, few());
  for (const char* verify : {"rejection", "typical"}) {
    for (const char* tree : {"", "2,2"}) {
      SCOPED_TRACE(std::string(verify) + " " + tree);
      const Overrides way = eagle3(tree, {std::string("drafter.verify=") + verify});
      const Outcome first = run(way, few()), second = run(way, few());
      EXPECT_EQ(first.samples, second.samples);
      ASSERT_EQ(first.samples.size(), alone.samples.size());
      for (size_t i = 0; i < alone.samples.size(); i += 2) {
        EXPECT_EQ(first.samples[i], alone.samples[i]) << "greedy request " << i;
      }
    }
  }
}

// Their rows see rows behind them, which the device's attention does not.
TEST_P(CudaHeadDrafts, heads_whose_rows_see_rows_behind_them_are_refused) {
  for (const char* kind : {"dflash", "dspark"}) {
    const RandomHead head(kind, {32, 99, 2, 96}, 1);
    EXPECT_THAT(refusal({"drafter.plugin=dflash", "drafter.model=" + head.path()}),
                HasSubstr("a head of the kind 'dflash', whose rows see rows behind them; the "
                          "executor 'cuda' runs heads of the kinds 'eagle3' and 'mtp'"))
        << kind;
  }
}

// Models that have layers for drafts.
class CudaModuleDrafts : public CudaDrafts {
 protected:
  static bool recurs() { return std::string(GetParam()).ends_with("qwen3_5"); }
  static bool agrees() { return !recurs() && !std::string(GetParam()).ends_with("ernie4_5_moe"); }
};
INSTANTIATE_TEST_SUITE_P(Models, CudaModuleDrafts,
                         testing::Values("../mtp/deepseek_v3", "../mtp/ernie4_5_moe",
                                         "../mtp/glm4_moe", "../mtp/qwen2_mimo", "../mtp/qwen3_5"),
                         [](const auto& one) { return std::string(one.param + 7); });

TEST_P(CudaModuleDrafts, chains_and_trees_change_no_token) {
  const Outcome alone = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, few());
  expect_the_same(drafting("mtp", "", {"scheduler.plugin=chunked", "kv_cache.plugin=prefix"}),
                  alone, agrees());
  const Overrides tree =
      drafting("mtp", "2,2", {"scheduler.plugin=continuous", "kv_cache.plugin=paged"});
  if (recurs()) {
    EXPECT_THAT(refusal(tree), HasSubstr("drafter.options.tree"));
  } else {
    expect_the_same(tree, alone, agrees());
  }
}

}  // namespace
}  // namespace tenon::cuda::test
