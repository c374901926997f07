// Whole pipelines of the executor `cuda` over several ranks, each a thread with an emulated device
// of its own: rank 0 plans, drafts and samples, the others follow, and a request has the tokens and
// the digest that it has on one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "core/exec/ranks/leading_executor.h"
#include "core/parallel/message.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/rank_parts.h"
#include "core/plugin/registry.h"
#include "tests/cuda/ranks/rank_rig.h"
#include "tests/support/folders.h"

namespace tenon::cuda::test {
namespace {

using testing::HasSubstr;

using Overrides = std::vector<std::string>;
// Tokens and a digest for each request.
using Answers = std::vector<std::pair<std::vector<TokenId>, uint64_t>>;

struct RankRun {
  Answers answers;
  bool draws = false;  // on the device; then logits have no digest
  uint64_t replays = 0;
};

// A rank of a run: its driver is made where its pipeline is built.
class RankPipeline {
 public:
  RankPipeline(Collective& ranks, const RankWorld& world, const Overrides& overrides) {
    PluginSearch search;
    search.folders.push_back({build_folder() + "/plugins", "tests", true});
    registry_ = std::make_unique<PluginRegistry>(*PluginRegistry::open(std::move(search)));
    Overrides all = {
        "executor.plugin=cuda",       "kv_cache.dtype=f32",
        "limits.max_batch_tokens=24", "limits.max_sequences=4",
        "limits.context_tokens=64",   "parallel.tensor=" + std::to_string(ranks.size())};
    all.insert(all.end(), overrides.begin(), overrides.end());
    auto config = parse_pipeline_config("format = 1\n", "p.toml", "/", all);
    EXPECT_TRUE(config.ok()) << config.status().message();
    PipelineRequest request;
    request.config = *std::move(config);
    request.registry = registry_.get();
    request.host.cpu = detect_cpu_features();
    request.ranks = &ranks;
    request.executors["cuda"] = [&](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
      driver = std::make_shared<EmulatedDriver>(uint64_t{1} << 30, ranks.rank() + 1);
      driver->show_devices(ranks.size());
      if (ranks.size() == 3) driver->show_memory();
      driver->machine().on_meeting(
          [peers = world.peers, rank = ranks.rank()](MeetingLaunch launch) {
            return peers->meet(rank, std::move(launch));
          });
      const auto nccl = std::make_shared<NcclDouble>(world.nccl, *driver);
      return make_cuda_executor(driver, {},
                                [nccl] { return Result<std::shared_ptr<NcclLibrary>>(nccl); });
    };
    auto built = build_pipeline(std::move(request));
    if (built.ok()) pipeline = *std::move(built);
    status = built.status().ok() ? Status() : internal(std::string(built.status().message()));
  }

  std::shared_ptr<EmulatedDriver> driver;
  std::unique_ptr<Pipeline> pipeline;
  Status status;

 private:
  std::unique_ptr<PluginRegistry> registry_;
};

Answers answer(Pipeline& pipeline, bool draws) {
  EngineOptions options = pipeline.engine_options();
  options.check_kv = true;
  options.logits_digest = !draws;
  Engine engine(pipeline.parts(), options);
  std::vector<std::shared_ptr<ResultSink>> sinks;
  for (uint32_t i = 0; i < 3; ++i) {
    Request request;
    for (uint32_t token = 0; token < 7 + 5 * i; ++token) {
      request.prompt.push_back(static_cast<TokenId>(3 + (token % 5 * (5 + i) + i) % 40));
    }
    request.max_tokens = 5 + i;
    request.ignore_eos = true;
    request.sampling.temperature = i == 1 ? 0.8f : 0.0f;
    request.sampling.seed = i;
    sinks.push_back(std::make_shared<ResultSink>());
    request.sink = sinks.back();
    const auto id = engine.submit(std::move(request));
    EXPECT_TRUE(id.ok()) << id.status().message();
  }
  const Status ended = engine.run_until_idle(2000);
  EXPECT_TRUE(ended.ok()) << ended.message();
  EXPECT_EQ(engine.last_fault(), "");
  Answers answers;
  for (const auto& sink : sinks) {
    for (const ResultSink::Sample& sample : sink->samples()) {
      EXPECT_NE(sample.reason, FinishReason::error) << sample.message;
      answers.emplace_back(sample.ids(), sample.record.logits_digest);
    }
  }
  return answers;
}

// A device goes on by itself; the emulated one when somebody waits.
void follow(Collective& ranks, Executor& executor, EmulatedDriver& driver) {
  StepFollower steps(executor);
  for (;;) {
    const auto bytes = ranks.receive();
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    MessageReader message(*bytes);
    const auto kind = message.number<RankMessage>();
    message.number<uint64_t>();
    if (kind == RankMessage::close) return;
    const Status done = steps.follow(kind, message);
    EXPECT_TRUE(done.ok()) << done.message();
    const Status ran = driver.wait();
    EXPECT_TRUE(ran.ok()) << ran.message();
  }
}

RankRun run(uint32_t ranks, const std::string& model, Overrides overrides, bool draws = false) {
  RankRun result;
  const RankWorld world(ranks);
  overrides.push_back("model.path=" + golden_models() + model);
  on_ranks(ranks, [&](Collective& all) {
    RankPipeline own(all, world, overrides);
    ASSERT_TRUE(own.status.ok()) << own.status.message();
    if (all.rank() != 0) return follow(all, *own.pipeline->executor, *own.driver);
    result.draws = own.pipeline->executor->draws_rows();
    result.answers = answer(*own.pipeline, draws);
    result.replays = own.driver->replays();
    own.pipeline.reset();  // the others hear of it
  });
  return result;
}

TEST(CudaRankPipelines, requests_have_the_tokens_and_digests_of_one_device) {
  const Answers alone = run(1, "llama_gqa", {}).answers;
  ASSERT_EQ(alone.size(), 3u);
  ASSERT_NE(alone[0].second, 0u) << "the digest";
  for (const Overrides& overrides :
       {Overrides{"executor.graph_memory=0"}, Overrides{"engine.plan_ahead=1"},
        Overrides{"scheduler.plugin=chunked", "kv_cache.plugin=radix"},
        Overrides{"drafter.plugin=ngram"}}) {
    EXPECT_EQ(run(2, "llama_gqa", overrides).answers, alone) << overrides[0];
  }
  const RankRun three = run(3, "llama_gqa", {});
  EXPECT_EQ(three.answers, alone);
  EXPECT_GT(three.replays, 0u);
}

TEST(CudaRankPipelines, rank_0_draws_on_its_device) {
  const RankRun alone = run(1, "llama_gqa", {}, true);
  const RankRun two = run(2, "llama_gqa", {}, true);
  EXPECT_TRUE(two.draws);
  EXPECT_EQ(two.answers, alone.answers);
}

TEST(CudaRankPipelines, what_a_rank_will_hold_is_known_before_any_is_started) {
  const std::string path = source_folder() + "/configs/models/tale";
  std::vector<uint64_t> held(2);
  const RankWorld world(2);
  on_ranks(2, [&](Collective& all) {
    const RankPipeline own(all, world, {"model.path=" + path});
    ASSERT_TRUE(own.status.ok()) << own.status.message();
    held[all.rank()] = own.pipeline->executor->weight_bytes();
  });
  auto model = open_model(path);
  ASSERT_TRUE(model.ok());
  const auto parts =
      parts_of_ranks(**model, 2, RankMemory::device, [](Model& whole, uint32_t rank) {
        return Result<ModelCut>(cut_model(whole, {.rank = rank, .ranks = 2}));
      });
  ASSERT_TRUE(parts.ok());
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_NEAR(static_cast<double>((*parts)[rank].weight_bytes) / static_cast<double>(held[rank]),
                1.0, 0.02);
  }
}

TEST(CudaRankPipelines, other_ways_to_share_out_a_model_are_refused_by_name) {
  const RankWorld world(2);
  const std::pair<const char*, const char*> refused[] = {
      {"parallel.pipeline=2", "parallel.pipeline is 2, but executor \"cuda\" cuts a model by"},
      {"parallel.expert=2", "parallel.expert is 2, but executor \"cuda\" cuts a model by columns"},
      {"parallel.data=2", "parallel.data is 2 and parallel.tensor is 2, but engines that share"},
      {"parallel.reduce=true", "parallel.reduce is true, but executor \"cuda\" cuts a model by"}};
  for (const auto& [setting, said] : refused) {
    Overrides overrides = {"model.path=" + golden_models() + "mixtral", setting};
    const std::string key(setting);
    if (key.starts_with("parallel.pipeline") || key.starts_with("parallel.expert")) {
      overrides.push_back("parallel.tensor=1");
    }
    on_ranks(2, [&](Collective& all) {
      const RankPipeline own(all, world, overrides);
      EXPECT_THAT(std::string(own.status.message()), HasSubstr(said)) << setting;
    });
  }
}

}  // namespace
}  // namespace tenon::cuda::test
