// Flags of every command that composes a pipeline.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/llm/open/open_pipeline.h"
#include "core/pipeline/pipeline.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/command_line.h"

namespace tenon {

struct PipelineFlags {
  std::string config;
  std::string model;
  std::string as;  // the family to read a model_type as that none is for
  std::vector<std::string> overrides;
  std::vector<std::string> plugin_path;
  std::string isa;
  std::optional<uint32_t> threads;
  std::optional<LogLevel> log_level;
  GuardLevel guard_at_least = GuardLevel::off;  // whatever the file says
  std::string model_from = "--model";           // what `model` was given as, for messages
  bool moves_clock = false;                     // llm::Loading::moves_clock
  std::optional<uint32_t> replica;              // llm::Loading::replica

  void add_to(Command command);
  // The same, and the model as the first argument.
  void add_to_with_model(Command command);
};

// What was printed is out before what follows in order of destruction.
struct PrintedFirst {
  ~PrintedFirst() { flush_output(); }
};
// Plugins may crash, or not return, when they are destroyed: results are complete by then.
struct OpenedPipeline : llm::OpenedPipeline {
  PrintedFirst printed_first = {};
};

Result<PipelineConfig> load_config(const PipelineFlags& flags);
// The places of the files that a configuration names, and of those next to it.
PluginSearch plugin_search(const PipelineFlags& flags, const PipelineConfig& config);
// Shows progress of loading on a terminal. Without weights, everything but the executor is ready.
// `shared` (may be null) outlives the pipeline.
// `planned` (may be empty) is called before anything is loaded.
Result<OpenedPipeline> open_pipeline(const PipelineFlags& flags, bool load_weights = true,
                                     SharedWeights* shared = nullptr,
                                     std::function<void(const PlannedMemory&)> planned = {});
// For `planned`: what the pipeline takes of memory, as a line for people.
void say_memory(const PlannedMemory& pipeline);

}  // namespace tenon
