#include "core/llm/open/open_pipeline.h"

#include <filesystem>

#include "core/base/log.h"
#include "core/base/machine/host_facts.h"
#include "core/exec/cpu/executor.h"
#include "core/exec/ref/executor.h"
#include "core/executors/executor_search.h"
#include "core/llm/open/places.h"
#include "core/llm/open/ranks.h"
#include "core/llm/open/simulation.h"

namespace tenon::llm {
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

Status check_replicas(const PipelineConfig& config, const Loading& loading) {
  const auto& replicas = config.data_replicas;
  if (replicas.value == 1 || loading.replica || !loading.weights) return {};
  return unsupported(
      replicas.origin.text() + ": parallel.data is " + std::to_string(replicas.value) +
      ", but one engine runs here; `tenon serve` has several; set parallel.data = 1");
}

}  // namespace

Result<PipelineConfig> read_config(const PipelineSource& source) {
  if (source.text) {
    std::error_code error;
    const std::string here = std::filesystem::current_path(error).string();
    return parse_pipeline_config(*source.text, "pipeline", here, source.overrides, source.settings);
  }
  std::string file = source.file;
  if (file.empty()) {
    TENON_ASSIGN_OR_RETURN(file, default_pipeline());
  }
  return load_pipeline_config(file, source.overrides, source.settings);
}

PluginSearch plugin_search(const std::vector<std::string>& plugin_path,
                           const PipelineConfig& config) {
  PluginSearch search = PluginSearch::standard(plugin_path);
  for (const auto& file : config.plugin_files) search.files.push_back({file.value, file.origin});
  search.policy = config.plugin_policy.value;
  search.public_key = config.plugin_key.value;
  search.use_lock_beside(config.path);
  return search;
}

Result<OpenedPipeline> open_pipeline(PipelineConfig config,
                                     const std::vector<std::string>& plugin_path,
                                     const Loading& loading) {
  warn_of_unheard(config);
  TENON_RETURN_IF_ERROR(check_replicas(config, loading));
  TENON_ASSIGN_OR_RETURN(PluginRegistry registry,
                         PluginRegistry::open(plugin_search(plugin_path, config)));
  OpenedPipeline opened;
  opened.registry = std::make_unique<PluginRegistry>(std::move(registry));
  PipelineRequest request;
  request.config = std::move(config);
  request.registry = opened.registry.get();
  request.executors = executors();
  request.find_executor = [](const std::string& name) {
    return find_executor(name, installed_executor_folders());
  };
  request.host = host_facts();
  request.load_weights = loading.weights;
  request.replica = loading.replica.value_or(0);
  if (loading.replica || !loading.weights) request.replicas = request.config.engines();
  request.shared_weights = loading.shared;
  request.progress = loading.progress;
  request.planned = loading.planned;
  request.available_memory_bytes = request.total_memory_bytes = loading.memory_bytes;
  TENON_RETURN_IF_ERROR(simulate(request, loading, opened.clock));
  if (loading.weights) request.ranks = ranks_of_program();
  TENON_RETURN_IF_ERROR(tell_ranks(request, plugin_path));
  TENON_ASSIGN_OR_RETURN(opened.pipeline, build_pipeline(std::move(request)));
  return opened;
}

}  // namespace tenon::llm
