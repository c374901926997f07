// Models with recurrent layers in whole pipelines of the build folder's plugins, on executors that
// a test brings.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "core/pipeline/pipeline.h"
#include "tests/support/folders.h"

namespace tenon::test {

using Overrides = std::vector<std::string>;

inline constexpr const char* kManagers[] = {"naive", "paged", "prefix", "radix"};

struct Outcome {
  std::vector<std::pair<std::vector<TokenId>, uint64_t>> samples;  // ids and digest, in order
  EngineTotals totals;
};

// Of a golden model, its parameter.
class RecurrentPipelinesOn : public testing::TestWithParam<const char*> {
 protected:
  // `always` is in force for all pipelines that say nothing else.
  explicit RecurrentPipelinesOn(ExecutorFactories executors, Overrides always = {})
      : executors_(std::move(executors)), always_(std::move(always)) {
    PluginSearch search;
    search.folders.push_back({build_folder() + "/plugins", "tests", true});
    auto opened = PluginRegistry::open(std::move(search));
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    registry_ = std::make_unique<PluginRegistry>(*std::move(opened));
  }

  virtual std::string model_path() const { return golden_models() + GetParam(); }

  Result<std::unique_ptr<Pipeline>> build(Overrides overrides) {
    overrides.insert(overrides.begin(), always_.begin(), always_.end());
    overrides.insert(overrides.begin(), "limits.max_batch_tokens=64");
    overrides.push_back("model.path=" + model_path());
    overrides.push_back("limits.context_tokens=96");
    auto config = parse_pipeline_config("format = 1\n", "p.toml", "/", overrides);
    if (!config.ok()) return config.take_status();
    PipelineRequest request;
    request.config = *std::move(config);
    request.registry = registry_.get();
    request.executors = executors_;
    request.host.cpu = detect_cpu_features();
    request.host.workers = 2;
    return build_pipeline(std::move(request));
  }
  std::string refusal(Overrides overrides) {
    const auto pipeline = build(std::move(overrides));
    return pipeline.ok() ? "none" : std::string(pipeline.status().message());
  }

  // Prompts that repeat themselves, so that drafters find something, with 20 to 41 tokens each.
  static std::vector<Request> requests() {
    std::vector<Request> all;
    for (uint32_t i = 0; i < 8; ++i) {
      Request request;
      for (uint32_t token = 0; token < 20 + 3 * i; ++token) {
        request.prompt.push_back(static_cast<TokenId>(3 + (token % 7 * (5 + i) + i) % 90));
      }
      request.max_tokens = 12 + 2 * i;
      request.ignore_eos = true;
      request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.8f;
      request.sampling.seed = i;
      all.push_back(std::move(request));
    }
    return all;
  }

  // Prompts of 35 common tokens and some of their own, one of them twice.
  static std::vector<Request> with_a_common_beginning() {
    std::vector<Request> all;
    for (uint32_t i = 0; i < 9; ++i) {
      Request request;
      for (uint32_t t = 0; t < 35; ++t) {
        request.prompt.push_back(static_cast<TokenId>(3 + t * 7 % 41));
      }
      const uint32_t own = i == 8 ? 2 : i;
      for (uint32_t t = 0; t < 3 + 2 * own; ++t) {
        request.prompt.push_back(static_cast<TokenId>(3 + (t * (own + 2) + own * 11) % 90));
      }
      request.max_tokens = 12 + 2 * own;
      request.ignore_eos = true;
      request.sampling.temperature = own % 2 == 0 ? 0.0f : 0.8f;
      request.sampling.seed = own;
      all.push_back(std::move(request));
    }
    return all;
  }

  Outcome run(Overrides overrides, std::vector<Request> submitted) {
    Outcome outcome;
    auto pipeline = build(std::move(overrides));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    if (!pipeline.ok()) return outcome;
    EngineOptions options = (*pipeline)->engine_options();
    options.check_kv = true;
    options.logits_digest = digests_;
    Engine engine((*pipeline)->parts(), options);
    std::vector<std::shared_ptr<ResultSink>> sinks;
    for (Request& request : submitted) {
      sinks.push_back(std::make_shared<ResultSink>());
      request.sink = sinks.back();
      const auto id = engine.submit(std::move(request));
      EXPECT_TRUE(id.ok()) << id.status().message();
    }
    const Status ended = engine.run_until_idle(20000);
    EXPECT_TRUE(ended.ok()) << ended.message();
    EXPECT_EQ(engine.last_fault(), "");
    for (const auto& sink : sinks) {
      for (const ResultSink::Sample& sample : sink->samples()) {
        EXPECT_NE(sample.reason, FinishReason::error) << sample.message;
        outcome.samples.emplace_back(sample.ids(), sample.record.logits_digest);
      }
    }
    outcome.totals = engine.totals();
    return outcome;
  }
  Outcome expected() {
    return run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, requests());
  }
  uint64_t slot_bytes() {
    auto pipeline = build({});
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    uint64_t bytes = 0;
    for (const KvGroupGeometry& group : (*pipeline)->group_geometry) {
      if (group.dtype == DType::u8) bytes += group.bytes_per_token;
    }
    return bytes;
  }
  // Memory for so many slots and tokens of a pipeline; of what tokens take, slots get no more than
  // half.
  std::string memory_for(uint64_t slots, uint64_t tokens,
                         const Overrides& of = {"kv_cache.block_tokens=4"}) {
    auto pipeline = build(of);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    if (!pipeline.ok()) return "";
    uint64_t bytes = slots * slot_bytes();
    for (const KvGroupGeometry& group : (*pipeline)->group_geometry) {
      if (group.dtype != DType::u8) bytes += tokens * group.bytes_per_token;
    }
    return "kv_cache.memory=" + std::to_string(bytes);
  }

  ExecutorFactories executors_;
  Overrides always_;
  bool digests_ = false;  // of `run`: outcomes have them, else 0
  std::unique_ptr<PluginRegistry> registry_;
};

}  // namespace tenon::test
