// Pipelines of one process that keep packed weights once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "core/exec/cpu/executor.h"
#include "core/pipeline/pipeline.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using Overrides = std::vector<std::string>;

class SharedWeightsTest : public testing::Test {
 protected:
  SharedWeightsTest() {
    PluginSearch search;
    search.folders.push_back({build_folder() + "/plugins", "tests", true});
    auto opened = PluginRegistry::open(std::move(search));
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    registry_ = std::make_unique<PluginRegistry>(*std::move(opened));
  }

  std::unique_ptr<Pipeline> build(Overrides overrides) {
    overrides.insert(overrides.begin(), "model.path=" + model_);
    overrides.push_back("limits.context_tokens=96");
    auto config = parse_pipeline_config("format = 1\n", "p.toml", "/", overrides);
    EXPECT_TRUE(config.ok()) << config.status().message();
    PipelineRequest request;
    request.config = *std::move(config);
    request.registry = registry_.get();
    request.executors["cpu"] = [](const HostFacts& host) {
      return make_cpu_executor({2, host.cpu});
    };
    request.host.cpu = detect_cpu_features();
    request.host.workers = 2;
    request.available_memory_bytes = memory_bytes_;
    request.shared_weights = &shared_;
    auto pipeline = build_pipeline(std::move(request));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }
  static uint64_t shared_bytes(const Pipeline& pipeline) {
    return pipeline.executor->shared_weight_bytes();
  }
  static std::pair<std::vector<TokenId>, uint64_t> answer(Pipeline& pipeline) {
    Engine engine(pipeline.parts(), pipeline.engine_options());
    const auto sink = std::make_shared<ResultSink>();
    Request request;
    request.prompt = {3, 14, 15, 92, 65, 35};
    request.max_tokens = 12;
    request.ignore_eos = true;
    request.sink = sink;
    EXPECT_TRUE(engine.submit(std::move(request)).ok());
    EXPECT_TRUE(engine.run_until_idle(1000).ok());
    const ResultSink::Sample& sample = sink->samples().at(0);
    return {sample.ids(), sample.record.logits_digest};
  }

  const std::string goldens_ = golden_models();
  std::string model_ = goldens_ + "llama_gqa";
  uint64_t memory_bytes_ = 0;
  std::unique_ptr<PluginRegistry> registry_;
  SharedWeights shared_;
};

TEST_F(SharedWeightsTest, strategies_of_one_model_keep_its_weights_once_and_answer_alike) {
  const auto first = build({"scheduler.plugin=continuous", "kv_cache.plugin=paged"});
  const auto second = build({"scheduler.plugin=chunked", "kv_cache.plugin=radix",
                             "limits.max_batch_tokens=32", "limits.max_sequences=3"});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(shared_bytes(*first), 0u);
  EXPECT_GT(shared_bytes(*second), 0u);
  EXPECT_EQ(shared_bytes(*second), first->executor->weight_bytes());
  EXPECT_EQ(answer(*first), answer(*second));
}

TEST_F(SharedWeightsTest, weights_live_as_long_as_one_of_the_pipelines) {
  auto first = build({});
  const auto expected = answer(*first);
  const auto second = build({});
  first.reset();
  EXPECT_EQ(answer(*second), expected);
  const auto third = build({});
  EXPECT_GT(shared_bytes(*third), 0u);
}

TEST_F(SharedWeightsTest, nothing_is_left_of_weights_that_nobody_holds) {
  build({}).reset();
  EXPECT_EQ(shared_bytes(*build({})), 0u);
}

TEST_F(SharedWeightsTest, other_kernels_and_instruction_sets_pack_for_themselves) {
  const auto first = build({});
  EXPECT_EQ(shared_bytes(*build({"executor.isa=portable"})), 0u);
  model_ = goldens_ + "llama_mha";
  EXPECT_EQ(shared_bytes(*build({})), 0u);
}

TEST_F(SharedWeightsTest, a_file_that_was_written_anew_is_another_one) {
  const TemporaryFolder folder;
  const std::string copied = folder.path("model");
  std::filesystem::copy(model_, copied);
  model_ = copied;
  const auto first = build({});
  const std::string weights = copied + "/model.safetensors";
  const auto then = std::filesystem::last_write_time(weights);
  std::filesystem::last_write_time(weights, then + std::chrono::seconds(1));
  EXPECT_EQ(shared_bytes(*build({})), 0u);
}

TEST_F(SharedWeightsTest, memory_of_weights_that_are_held_is_not_counted_again) {
  memory_bytes_ = 400u << 10;
  const auto first = build({});
  const auto second = build({});
  EXPECT_GT(second->kv_bytes(), first->kv_bytes());
}

}  // namespace
}  // namespace tenon
