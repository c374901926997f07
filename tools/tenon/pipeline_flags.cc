#include "tools/tenon/pipeline_flags.h"

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/exec/cpu/cpu_executor.h"
#include "core/exec/ref/ref_executor.h"
#include "core/executors/executor_search.h"
#include "tools/tenon/machine.h"
#include "tools/tenon/places.h"
#include "tools/tenon/progress.h"

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

// Where the files are that a configuration names, and those beside it.
PluginSearch search_for(const PipelineFlags& flags, const PipelineConfig& config) {
  PluginSearch search = PluginSearch::standard(flags.plugin_path);
  for (const auto& file : config.plugin_files) search.files.push_back({file.value, file.origin});
  search.use_lock_beside(config.path);
  return search;
}

Status set_log_level_by_name(const std::string& name) {
  if (name.empty()) return {};
  const std::optional<LogLevel> level = parse_log_level(name);
  if (!level) {
    return invalid_argument("--log-level: " + in_quotes(name) +
                            " is no level; expected debug, info, warning or error");
  }
  set_log_level(*level);
  return {};
}

}  // namespace

void PipelineFlags::add_to(CLI::App& command) {
  const char* group = "Pipeline";
  command.add_option("--config", config, "pipeline file (default: the bundled one)")->group(group);
  command.add_option("--set", overrides, "override a value: --set scheduler.plugin=static")
      ->group(group)
      ->allow_extra_args(false);
  command.add_option("--model", model, "model folder or GGUF file, instead of the pipeline's")
      ->group(group);
  command.add_option("--plugin-path", plugin_path, "look for plugins here first")
      ->group(group)
      ->allow_extra_args(false);
  command.add_option("--isa", isa, "highest instruction set to use: portable, avx2, avx512, …")
      ->group(group);
  command.add_option("--threads", threads, "workers of the executor (default: all cores)")
      ->group(group);
  command.add_option("--log-level", log_level, "debug, info, warning (default) or error")
      ->group(group);
}

Result<PipelineConfig> load_config(const PipelineFlags& flags) {
  std::string path = flags.config;
  if (path.empty()) {
    TENON_ASSIGN_OR_RETURN(path, default_pipeline());
  }
  std::vector<std::string> overrides = flags.overrides;
  // A path need not be UTF-8; TOML must: such a value is taken as it stands.
  if (!flags.model.empty()) {
    overrides.push_back("model.path=" +
                        (is_utf8(flags.model) ? quote_toml(flags.model) : flags.model));
  }
  if (!flags.isa.empty()) overrides.push_back("executor.isa=" + quote_toml(flags.isa));
  if (flags.threads != 0) overrides.push_back("executor.threads=" + std::to_string(flags.threads));
  return load_pipeline_config(path, overrides);
}

Result<OpenedPipeline> open_pipeline(const PipelineFlags& flags, bool load_weights) {
  TENON_RETURN_IF_ERROR(set_log_level_by_name(flags.log_level));
  PipelineRequest request;
  TENON_ASSIGN_OR_RETURN(request.config, load_config(flags));
  TENON_ASSIGN_OR_RETURN(PluginRegistry registry,
                         PluginRegistry::open(search_for(flags, request.config)));
  OpenedPipeline opened;
  opened.registry = std::make_unique<PluginRegistry>(std::move(registry));
  request.registry = opened.registry.get();
  request.executors = executors();
  request.find_executor = [](const std::string& name) {
    return find_executor(name, installed_executor_folders());
  };
  request.host = host_facts();
  request.load_weights = load_weights;
  Progress progress("loading weights", Progress::Unit::bytes, true);
  request.progress = [&progress](uint64_t done, uint64_t total) { progress.update(done, total); };
  TENON_ASSIGN_OR_RETURN(opened.pipeline, build_pipeline(std::move(request)));
  return opened;
}

}  // namespace tenon
