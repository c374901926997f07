// Pipelines composed from a few lines of TOML, next to plugins that compute nothing (picky.cc).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/exec/ref/executor.h"
#include "core/pipeline/pipeline.h"
#include "tests/support/folders.h"

namespace tenon {

inline constexpr uint64_t kGiB = 1u << 30;

// Takes kernels and only asks for them.
class AskingExecutor final : public Executor {
 public:
  std::string_view name() const override { return "asking"; }
  std::span<const Fact> provides() const override { return kProvides; }
  std::span<const Fact> requirements() const override { return {}; }
  bool uses_kernels() const override { return true; }
  uint32_t workers() const override { return 3; }
  Status load(const ExecutorSetup& setup) override {
    if (setup.attention.prefill.kernel == nullptr) return internal("no attention kernel was given");
    for (const Weight* weight : {&setup.model->layers[0].q, &setup.model->layers[0].down}) {
      TENON_ASSIGN_OR_RETURN(const ChosenLinear chosen, setup.linear(weight->view()));
      if (!chosen.kernel->accepts(weight->view()).ok()) {
        return internal("a kernel that refuses was given");
      }
    }
    return {};
  }
  Status apply(std::span<const KvMove>) override { return {}; }
  Status launch(const BatchView&) override { return {}; }
  Result<StepOutput> collect(uint64_t) override { return StepOutput{}; }
  std::string numerics() const override { return "asking"; }
  uint64_t weight_bytes() const override { return 0; }
  uint64_t kv_bytes() const override { return 0; }

 private:
  static constexpr Fact kProvides[] = {{"kv.dtype", FactOp::in, 0, "f32 f16 bf16 u8"}};
};

inline ExecutorFactories composed_executors() {
  ExecutorFactories made;
  made["ref"] = [](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
    return make_ref_executor();
  };
  made["asking"] = [](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
    return std::unique_ptr<Executor>(std::make_unique<AskingExecutor>());
  };
  return made;
}

class PipelineTest : public testing::Test {
 protected:
  PipelineTest() {
    const std::string build = build_folder();
    PluginSearch search;
    // Files, not the folder: what else lies there must not decide what "auto" finds.
    for (const char* name :
         {"plugins/libtenon-scheduler_static", "plugins/libtenon-sampler_standard",
          "plugins/libtenon-scheduler_continuous", "plugins/libtenon-kv_cache_naive",
          "plugins/libtenon-kv_cache_paged", "plugins/libtenon-kv_cache_streaming",
          "plugins/libtenon-kv_cache_heavy_hitters", "plugins/libtenon-drafter_draft_model",
          "tests/pipeline/libtenon-picky"}) {
      search.files.push_back({build + "/" + name + ".so", {"test", 0, 0}});
    }
    auto opened = PluginRegistry::open(search);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    registry_ = std::make_unique<PluginRegistry>(*std::move(opened));
  }

  Result<std::unique_ptr<Pipeline>> build(const std::string& text,
                                          std::vector<std::string> overrides = {},
                                          uint64_t memory = 8 * kGiB) {
    overrides.push_back("model.path=" + source_folder() + "/configs/models/tale");
    auto config = parse_pipeline_config("format = 1\n" + text, "p.toml", "/", overrides);
    if (!config.ok()) return config.take_status();
    PipelineRequest request;
    request.config = *std::move(config);
    request.registry = registry_.get();
    request.executors = composed_executors();
    request.find_executor = find_executor_;
    request.host.cpu = kCpuAvx512;
    request.host.workers = 2;
    request.available_memory_bytes = memory;
    request.total_memory_bytes = 16 * kGiB;
    request.clock = clock_;
    return build_pipeline(std::move(request));
  }
  std::unique_ptr<Pipeline> built(const std::string& text, std::vector<std::string> overrides = {},
                                  uint64_t memory = 8 * kGiB) {
    auto pipeline = build(text, std::move(overrides), memory);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }
  std::string error_of(const std::string& text, std::vector<std::string> overrides = {},
                       uint64_t memory = 8 * kGiB) {
    const auto pipeline = build(text, std::move(overrides), memory);
    return pipeline.ok() ? "" : std::string(pipeline.status().message());
  }

  std::unique_ptr<PluginRegistry> registry_;
  const Clock* clock_ = nullptr;
  std::function<Result<ExecutorFactory>(const std::string&)> find_executor_;
};

inline constexpr const char* kRef = "[executor]\nplugin = 'ref'\n";
inline constexpr const char* kAsking = "[executor]\nplugin = 'asking'\n";

}  // namespace tenon
