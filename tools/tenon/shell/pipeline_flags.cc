#include "tools/tenon/shell/pipeline_flags.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/config/schema.h"
#include "core/pipeline/memory_text.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/ranks.h"

namespace tenon {
namespace {

LogLevel log_level_of(const std::string& name) {
  const std::optional<LogLevel> level = parse_log_level(name);
  refuse("--log-level", name.empty() ? "--log-level is empty – write a level or leave it out" : "");
  refuse("--log-level",
         level ? "" : in_quotes(name) + " is no level; expected debug, info, warning or error");
  return *level;
}

NumberSpec without_auto(NumberSpec spec) {
  spec.or_auto = false;
  return spec;
}

}  // namespace

void PipelineFlags::add_to(Command command) {
  const char* group = "Pipeline";
  const NumberSpec workers = number_spec(*find_config_key("executor.threads"), "--threads");
  add_text(command, "--config", config, "pipeline file (default: the bundled one)").group(group);
  add_texts(command, "--set", overrides, "override a value: --set scheduler.plugin=static")
      .group(group);
  add_text(command, "--model", model, "model folder, GGUF file or name, instead of the pipeline's")
      .group(group);
  add_text(command, "--as", as, "family to read a model_type as that none is for: --as llama")
      .group(group);
  add_texts(command, "--plugin-path", plugin_path, "look for plugins here first").group(group);
  add_text(command, "--isa", isa, "highest instruction set to use: portable, avx2, avx512, …")
      .group(group);
  add_number(command, without_auto(workers), threads,
             "workers of the executor (default: all cores)")
      .group(group);
  command
      .add_option(
          "--log-level", [this](const std::string& name) { log_level = log_level_of(name); },
          "debug, info, warning (default) or error")
      .group(group);
}

void PipelineFlags::add_to_with_model(Command command) {
  Option first =
      command
          .add_option(
              "model",
              [this](const std::string& text) {
                refuse("model", text.empty() ? "model is empty – it must be a folder or a GGUF "
                                               "file – write it or leave it out"
                                             : "");
                model = text;
                model_from = "model";
              },
              "model folder, GGUF file or name (default: the pipeline's)")
          .type_name("MODEL");
  add_to(command);
  first.excludes("--model");
}

Result<PipelineConfig> load_config(const PipelineFlags& flags) {
  llm::PipelineSource source{.file = flags.config, .overrides = flags.overrides};
  const auto set = [&](const char* key, SettingValue value, const std::string& flag) {
    source.settings.push_back({key, std::move(value), {flag, 0, 0}});
  };
  if (!flags.model.empty()) set("model.path", flags.model, flags.model_from);
  if (!flags.as.empty()) set("model.as", flags.as, "--as");
  if (!flags.isa.empty()) set("executor.isa", flags.isa, "--isa");
  if (flags.threads) set("executor.threads", int64_t{*flags.threads}, "--threads");
  TENON_ASSIGN_OR_RETURN(PipelineConfig config, llm::read_config(source));
  config.guard.value = std::max(config.guard.value, flags.guard_at_least);
  // Where nothing says what so many processes are for, they share out every layer.
  if (launched_as() > 0 && config.processes() == 1 && config.expert_ranks.value == 1) {
    config.tensor_ranks = {launched_as(), {"--launch", 0, 0}};
  }
  return config;
}

PluginSearch plugin_search(const PipelineFlags& flags, const PipelineConfig& config) {
  return llm::plugin_search(flags.plugin_path, config);
}

Result<OpenedPipeline> open_pipeline(const PipelineFlags& flags, bool load_weights,
                                     SharedWeights* shared,
                                     std::function<void(const PlannedMemory&)> planned) {
  if (flags.log_level) set_log_level(*flags.log_level);
  TENON_ASSIGN_OR_RETURN(PipelineConfig config, load_config(flags));
  Progress progress("loading weights", Progress::Unit::bytes, true);
  TENON_ASSIGN_OR_RETURN(
      llm::OpenedPipeline opened,
      llm::open_pipeline(
          std::move(config), flags.plugin_path,
          {.weights = load_weights,
           .shared = shared,
           .progress = [&](uint64_t done, uint64_t total) { progress.update(done, total); },
           .planned = std::move(planned),
           .replica = flags.replica,
           .moves_clock = flags.moves_clock}));
  return OpenedPipeline{std::move(opened)};
}

void say_memory(const PlannedMemory& pipeline) {
  say(memory_line(pipeline));
}

}  // namespace tenon
