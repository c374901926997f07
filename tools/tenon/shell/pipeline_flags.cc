#include "tools/tenon/shell/pipeline_flags.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/base/machine/host_facts.h"
#include "core/base/quote.h"
#include "core/config/schema.h"
#include "core/exec/cpu/executor.h"
#include "core/exec/ref/executor.h"
#include "core/executors/executor_search.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

ExecutorFactories executors() {
  return {{"cpu",
           [](const HostFacts& host) {
             return make_cpu_executor({.threads = host.workers, .isa = host.cpu});
           }},
          {"ref", [](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
             return make_ref_executor();
           }}};
}

LogLevel log_level_of(const std::string& name) {
  const std::optional<LogLevel> level = parse_log_level(name);
  refuse("--log-level", name.empty() ? "--log-level is empty – write a level or leave it out" : "");
  refuse("--log-level",
         level ? "" : in_quotes(name) + " is no level; expected debug, info, warning or error");
  return *level;
}

// The oracle is portable code on one thread: what the host could do better is not for it.
void warn_of_unheard(const PipelineConfig& config) {
  if (config.executor.value != "ref") return;
  const auto warn = [](const Origin& origin, const std::string& key, const std::string& does) {
    log(LogLevel::warning, "pipeline",
        origin.text() + ": " + key + " is set, but executor 'ref' " + does + " – leave it out");
  };
  if (config.threads.value) warn(config.threads.origin, "executor.threads", "runs on one thread");
  if (config.isa.value) warn(config.isa.origin, "executor.isa", "is portable");
}

NumberSpec without_auto(NumberSpec spec) {
  spec.or_auto = false;
  return spec;
}

}  // namespace

void PipelineFlags::add_to(CLI::App& command) {
  const char* group = "Pipeline";
  const NumberSpec workers = number_spec(*find_config_key("executor.threads"), "--threads");
  add_text(command, "--config", config, "pipeline file (default: the bundled one)")->group(group);
  add_texts(command, "--set", overrides, "override a value: --set scheduler.plugin=static")
      ->group(group);
  add_text(command, "--model", model, "model folder or GGUF file, instead of the pipeline's")
      ->group(group);
  add_texts(command, "--plugin-path", plugin_path, "look for plugins here first")->group(group);
  add_text(command, "--isa", isa, "highest instruction set to use: portable, avx2, avx512, …")
      ->group(group);
  add_number(command, without_auto(workers), threads,
             "workers of the executor (default: all cores)")
      ->group(group);
  command
      .add_option_function<std::string>(
          "--log-level", [this](const std::string& name) { log_level = log_level_of(name); },
          "debug, info, warning (default) or error")
      ->group(group);
}

void PipelineFlags::add_to_with_model(CLI::App& command) {
  CLI::Option* first =
      command
          .add_option_function<std::string>(
              "model",
              [this](const std::string& text) {
                refuse("model", text.empty() ? "model is empty – it must be a folder or a GGUF "
                                               "file – write it or leave it out"
                                             : "");
                model = text;
                model_from = "model";
              },
              "model folder or GGUF file (default: the pipeline's)")
          ->type_name("MODEL");
  add_to(command);
  first->excludes("--model");
}

Result<PipelineConfig> load_config(const PipelineFlags& flags) {
  std::string path = flags.config;
  if (path.empty()) {
    TENON_ASSIGN_OR_RETURN(path, default_pipeline());
  }
  std::vector<Setting> settings;
  const auto set = [&](const char* key, SettingValue value, const std::string& flag) {
    settings.push_back({key, std::move(value), {flag, 0, 0}});
  };
  if (!flags.model.empty()) set("model.path", flags.model, flags.model_from);
  if (!flags.isa.empty()) set("executor.isa", flags.isa, "--isa");
  if (flags.threads) set("executor.threads", int64_t{*flags.threads}, "--threads");
  TENON_ASSIGN_OR_RETURN(PipelineConfig config,
                         load_pipeline_config(path, flags.overrides, settings));
  config.guard.value = std::max(config.guard.value, flags.guard_at_least);
  return config;
}

PluginSearch plugin_search(const PipelineFlags& flags, const PipelineConfig& config) {
  PluginSearch search = PluginSearch::standard(flags.plugin_path);
  for (const auto& file : config.plugin_files) search.files.push_back({file.value, file.origin});
  search.policy = config.plugin_policy.value;
  search.public_key = config.plugin_key.value;
  search.use_lock_beside(config.path);
  return search;
}

Result<OpenedPipeline> open_pipeline(const PipelineFlags& flags, bool load_weights,
                                     SharedWeights* shared) {
  if (flags.log_level) set_log_level(*flags.log_level);
  PipelineRequest request;
  TENON_ASSIGN_OR_RETURN(request.config, load_config(flags));
  warn_of_unheard(request.config);
  TENON_ASSIGN_OR_RETURN(PluginRegistry registry,
                         PluginRegistry::open(plugin_search(flags, request.config)));
  OpenedPipeline opened;
  opened.registry = std::make_unique<PluginRegistry>(std::move(registry));
  request.registry = opened.registry.get();
  request.executors = executors();
  request.find_executor = [](const std::string& name) {
    return find_executor(name, installed_executor_folders());
  };
  request.host = host_facts();
  request.load_weights = load_weights;
  request.shared_weights = shared;
  Progress progress("loading weights", Progress::Unit::bytes, true);
  request.progress = [&progress](uint64_t done, uint64_t total) { progress.update(done, total); };
  TENON_ASSIGN_OR_RETURN(opened.pipeline, build_pipeline(std::move(request)));
  return opened;
}

}  // namespace tenon
