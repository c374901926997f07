// From what somebody says about a pipeline to one that is ready to run, with the plugins and
// executors of this installation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/pipeline_config.h"
#include "core/pipeline/pipeline.h"
#include "core/plugin/registry.h"
#include "core/plugin/search.h"

namespace tenon::llm {

// Loading::memory_bytes with which planning refuses nothing: more than any machine has.
inline constexpr uint64_t kBoundlessMemory = uint64_t{1} << 50;

struct PipelineSource {
  std::string file = {};                      // a pipeline file; empty = the bundled one
  std::optional<std::string> text = {};       // TOML instead; its paths start at the current folder
  std::vector<std::string> overrides = {};    // "scheduler.plugin=static"
  std::vector<Setting> settings = {};         // options of a program that stand for a key
  std::vector<std::string> plugin_path = {};  // folders to look for plugins in first
};

// The bundled pipeline's file where `source` names none. Errors: those of load_pipeline_config.
Result<PipelineConfig> read_config(const PipelineSource& source);
// The plugin files that `config` names, and those of the folders that are always searched.
PluginSearch plugin_search(const std::vector<std::string>& plugin_path,
                           const PipelineConfig& config);

struct Loading {
  bool weights = true;              // false: everything but the executor is ready
  SharedWeights* shared = nullptr;  // as PipelineRequest::shared_weights
  LoadProgress progress = {};       // may be empty
  std::function<void(const PlannedMemory&)> planned = {};  // PipelineRequest::planned
  uint64_t memory_bytes = 0;  // as if the machine had so much, all of it free; 0: what it has
  // The caller serves PipelineConfig::engines(), of which this is one; nothing: it runs one alone,
  // and refuses several replicas.
  std::optional<uint32_t> replica = {};
  // The caller moves the pipeline's virtual clock, where it has one: the executor "sim" is refused
  // to all others, once it is to be loaded.
  bool moves_clock = false;
};

// A registry and the pipeline that uses it.
struct OpenedPipeline {
  std::unique_ptr<VirtualClock> clock;  // of a simulation, else null
  std::unique_ptr<PluginRegistry> registry;
  std::unique_ptr<Pipeline> pipeline;
};

// Errors: those of build_pipeline, and plugin files that must not or cannot be read.
Result<OpenedPipeline> open_pipeline(PipelineConfig config,
                                     const std::vector<std::string>& plugin_path,
                                     const Loading& loading = {});

}  // namespace tenon::llm
