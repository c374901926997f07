// Flags of every command that composes a pipeline.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/pipeline/pipeline.h"

namespace tenon {

struct PipelineFlags {
  std::string config;
  std::string model;
  std::vector<std::string> overrides;
  std::vector<std::string> plugin_path;
  std::string isa;
  uint32_t threads = 0;
  std::string log_level;

  void add_to(CLI::App& command);
};

// A registry and the pipeline that uses it.
struct OpenedPipeline {
  std::unique_ptr<PluginRegistry> registry;
  std::unique_ptr<Pipeline> pipeline;
};

Result<PipelineConfig> load_config(const PipelineFlags& flags);
// Shows progress of loading on a terminal. Without weights, everything but the executor is ready.
Result<OpenedPipeline> open_pipeline(const PipelineFlags& flags, bool load_weights = true);

}  // namespace tenon
