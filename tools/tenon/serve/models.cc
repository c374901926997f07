#include "tools/tenon/serve/models.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/base/log.h"
#include "core/base/machine/cpu_cores.h"
#include "core/base/machine/process_memory.h"
#include "core/base/machine/system_memory.h"
#include "core/base/quote.h"
#include "core/base/saturating.h"
#include "core/base/text.h"
#include "core/config/models_file.h"
#include "core/files/gguf_parts.h"
#include "core/hub/cache.h"
#include "core/pipeline/memory_text.h"

namespace tenon {
namespace {

// One model: what is said of it, and what becomes of it.
struct Spec {
  std::string name = {};  // empty: its model's own
  PipelineFlags flags = {};
  std::string chat_template = {};
  bool random_seeds = false;
  bool keep = true;
  int64_t idle_unload_ns = 0;
  std::string adapters = {};  // a folder below which requests may name adapters; empty: none
  uint32_t max_adapters = 0;
};

// The last part of a path, without its ending; of a model in the cache, the name that it has there.
std::string stem_of(const std::string& path) {
  if (const auto name = hub::name_of_snapshot(path)) return *name;
  std::filesystem::path clean = std::filesystem::path(without_gguf_part(path)).lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  return clean.stem().string();
}

// A pipeline's file ends in ".toml"; all else is a model.
void set_source(const std::string& text, PipelineFlags& flags) {
  if (text.ends_with(".toml")) {
    flags.config = text;
  } else {
    flags.model = text;
    flags.model_from = "a model to serve";
  }
}

Result<Spec> listed_spec(const std::string& text, const ModelFlags& flags) {
  const size_t equal = text.find('=');
  const bool is_named = equal != text.npos && text.find('/') > equal;
  const std::string source = is_named ? text.substr(equal + 1) : text;
  Spec spec{.name = is_named ? text.substr(0, equal) : stem_of(text),
            .flags = flags.pipeline,
            .chat_template = flags.chat_template,
            .random_seeds = flags.random_seeds,
            .keep = !flags.on_demand};
  if (spec.name.empty() || source.empty()) {
    return invalid_argument(in_quotes(text) +
                            " is neither a pipeline nor a model – write FILE or NAME=FILE");
  }
  set_source(source, spec.flags);
  return spec;
}

Spec file_spec(const ListedModel& model, const ModelFlags& flags) {
  Spec spec{
      .name = model.name,
      .flags = flags.pipeline,
      .chat_template = model.chat_template.empty() ? flags.chat_template : model.chat_template,
      .random_seeds = flags.random_seeds,
      .keep = model.keep};
  if (!model.pipeline.empty()) spec.flags.config = model.pipeline;
  spec.flags.settings = model.settings;
  return spec;
}

Status check_names(const std::vector<Spec>& specs) {
  std::set<std::string> names;
  for (const Spec& spec : specs) {
    if (names.insert(spec.name).second) continue;
    return invalid_argument("two models have the name " + in_quotes(spec.name) +
                            " – give one another, as NAME=FILE");
  }
  return Status();
}

// What the pipelines of all models say, before one of them is loaded for minutes: every fault at
// once. Their models are looked at when they are needed.
Status check_pipelines(const std::vector<Spec>& specs) {
  std::vector<std::string> faults;
  for (const Spec& spec : specs) {
    const std::string whose =
        specs.size() > 1 && !spec.name.empty() ? "the model " + in_quotes(spec.name) + ": " : "";
    const auto note = [&](const Status& status) {
      if (!status.ok()) faults.push_back(whose + message_of(status));
    };
    if (!spec.chat_template.empty()) note(server::read_chat_template(spec.chat_template).status());
    const Result<PipelineConfig> config = load_config(spec.flags);
    note(config.status());
    if (spec.keep || !config.ok()) continue;
    if (config->processes() == 1 && config->engines() == 1) continue;
    faults.push_back("the model " + in_quotes(spec.name) +
                     " is run by several processes or engines ([parallel]), which are loaded "
                     "together at the start – keep it (keep = true)");
  }
  return faults.empty() ? Status() : invalid_argument(join(faults, "\n"));
}

// Nanoseconds; 0 = never. Null: nobody said.
Result<std::optional<int64_t>> idle_time(const std::string& text) {
  if (text.empty()) return std::optional<int64_t>();
  if (text == "never") return std::optional<int64_t>(0);
  const auto parsed = parse_duration_ns(text);
  if (parsed && *parsed > 0) return parsed;
  return invalid_argument("--idle-unload is " + in_quotes(text) +
                          " – it must be a time such as 10min, or never");
}

Result<std::optional<uint64_t>> memory_of(const std::string& text) {
  if (text.empty()) return std::optional<uint64_t>();
  const auto bytes = parse_bytes(text);
  if (bytes && *bytes > 0) return std::optional<uint64_t>(static_cast<uint64_t>(*bytes));
  return invalid_argument("--models-memory is " + in_quotes(text) +
                          " – it must be a size such as 24GiB");
}

// Where requests may take adapters from: what the command says counts more than the file.
Status allow_adapters(const ModelFlags& flags, const ModelsFile& file, std::vector<Spec>& specs) {
  const std::string& folder = flags.adapters.empty() ? file.adapters : flags.adapters;
  if (folder.empty()) {
    if (!flags.max_adapters) return {};
    return invalid_argument(
        "--max-adapters is about adapters that requests load, and they may not – give the folder "
        "that they may name them from, as --adapters FOLDER");
  }
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return invalid_argument((flags.adapters.empty() ? "[server] adapters" : "--adapters") +
                            std::string(" is ") + in_quotes(folder) +
                            ", and there is no such folder");
  }
  for (Spec& spec : specs) {
    spec.adapters = folder;
    spec.max_adapters = flags.max_adapters.value_or(file.max_adapters);
  }
  return {};
}

// What goes with a loaded model; the weights that others share outlive its pipeline.
struct Held {
  std::shared_ptr<SharedWeights> weights;
  std::vector<OpenedPipeline> opened;  // of each engine
};

using ModelResult = Result<std::unique_ptr<server::ServedModel>>;

ModelResult load(const Spec& spec, const std::shared_ptr<SharedWeights>& weights,
                 uint64_t free_bytes) {
  auto held = std::make_shared<Held>();
  held->weights = weights;
  TENON_ASSIGN_OR_RETURN(const PipelineConfig config, load_config(spec.flags));
  const uint32_t engines = config.engines();
  std::string told;  // what has been said of a replica is not said again of the next
  const auto tell = [&](const PlannedMemory& planned) {
    const std::string line = memory_line(planned);
    if (line == told) return;
    const bool is_first = told.empty();
    told = line;
    say((spec.keep ? "" : spec.name + ": ") + (is_first ? "" : "another replica: ") + line +
        (is_first && engines > 1
             ? "; " + std::to_string(engines) + " replicas have the weights once and such K/V each"
             : ""));
  };
  // Engines of one process take turns on its cores only where they are one pipeline's.
  const bool cores_apart = config.processes() == 1;
  std::unique_ptr<server::ServedModel> model;
  for (uint32_t rank = 0; rank < engines; ++rank) {
    const CoreShare share(cores_apart ? rank : 0, cores_apart ? engines : 1);
    PipelineFlags flags = spec.flags;
    flags.replica = rank;
    TENON_ASSIGN_OR_RETURN(OpenedPipeline opened,
                           open_pipeline(flags, true, weights.get(), tell, free_bytes));
    Pipeline& pipeline = *held->opened.emplace_back(std::move(opened)).pipeline;
    if (!spec.adapters.empty()) {
      Status added = add_adapter_places(pipeline, spec.max_adapters);
      if (!added.ok()) return with_context("--adapters", added);
    }
    const bool on_device = pipeline.executor->device_bytes().has_value();
    if (rank > 0) {
      model->others.push_back(server::another_replica(*model, pipeline, rank));
      model->kv_bytes += on_device ? 0 : pipeline.kv_bytes();
      continue;
    }
    const std::string name = spec.name.empty() ? stem_of(pipeline.model->path) : spec.name;
    TENON_ASSIGN_OR_RETURN(model, server::open_served_model(name, pipeline, spec.chat_template));
    model->replicas = engines;
    model->cores_apart = cores_apart;
    model->random_seeds = spec.random_seeds;
    model->weight_bytes = on_device ? 0 : pipeline.weight_bytes();
    model->kv_bytes = on_device ? 0 : pipeline.kv_bytes();
    if (spec.adapters.empty()) continue;
    model->adapters = std::make_unique<server::AdapterPlaces>(spec.adapters, spec.max_adapters);
  }
  model->holds = std::move(held);
  return model;
}

// Two models with the same text have the same weights in the same form.
std::string weights_name(const Pipeline& pipeline) {
  const PipelineConfig& config = pipeline.config;
  std::string name = pipeline.model->path + "\n" + config.executor.value + "\n" +
                     config.linear.plugin.value + "\n" +
                     std::to_string(config.threads.value.value_or(0)) + "\n" +
                     (config.isa.value ? std::to_string(static_cast<int>(*config.isa.value)) : "");
  for (const NamedAdapter& adapter : config.adapters) name += "\n" + adapter.path.value;
  return name;
}

Result<server::ModelNeeds> measure(const Spec& spec) {
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened,
                         open_pipeline(spec.flags, false, nullptr, {}, llm::kBoundlessMemory));
  const Pipeline& pipeline = *opened.pipeline;
  const auto& asked = pipeline.config.kv_memory_bytes.value;
  const uint32_t context = pipeline.limits.context_tokens;
  // A running sequence holds up to three states. Where nobody says how much K/V may take, it gets
  // half of what is free beside the weights.
  const uint64_t one =
      sequence_bytes(pipeline.kv_needs, context) + 2 * pipeline.kv_needs.state_bytes;
  const uint64_t kv = asked ? *asked : saturating_add(one, one);
  return server::ModelNeeds{
      .weights = weights_name(pipeline),
      .weight_bytes = pipeline.weight_bytes(),
      .least_kv_bytes = saturating_add(kv, pipeline.config.kv_swap_bytes.value),
      .device_free_bytes = pipeline.executor->device_bytes(),
      .context_tokens = context,
      .has_chat = !spec.chat_template.empty() || server::has_chat_template(pipeline)};
}

void tell_needs(const std::string& name, const server::ModelNeeds& needs) {
  say(name + ": weights " + approximate_bytes(needs.weight_bytes) + ", and " +
      approximate_bytes(needs.least_kv_bytes) + " for K/V at least; loaded when it is asked for");
}

Result<server::ModelSource> source_of(Spec spec, const std::shared_ptr<SharedWeights>& weights) {
  server::ModelSource source{.name = spec.name,
                             .keep = spec.keep,
                             .idle_unload = std::chrono::nanoseconds(spec.idle_unload_ns)};
  if (spec.keep) {
    TENON_ASSIGN_OR_RETURN(source.loaded, load(spec, weights, 0));
    source.name = source.loaded->name;
    for (const NamedAdapter& adapter : source.loaded->pipeline->config.adapters) {
      source.adapters.push_back(adapter.name);
    }
    return source;
  }
  TENON_ASSIGN_OR_RETURN(const PipelineConfig config, load_config(spec.flags));
  for (const NamedAdapter& adapter : config.adapters) source.adapters.push_back(adapter.name);
  source.measure = [spec] { return measure(spec); };
  source.load = [spec, weights](uint64_t free_bytes) { return load(spec, weights, free_bytes); };
  Result<server::ModelNeeds> needs = source.measure();
  if (needs.ok()) {
    tell_needs(spec.name, *needs);
    source.needs = *needs;
  } else {
    log(LogLevel::warning, "server",
        "the model " + in_quotes(spec.name) + " cannot be loaded as it is: " +
            message_of(needs.status()) + " – the others are served");
  }
  return source;
}

// Of models that could be loaded, were all of them allowed to take more: every request for such a
// one will be refused.
void warn_of_no_room(const ModelsToServe& models) {
  if (!models.options.memory_bytes) return;
  for (const server::ModelSource& source : models.sources) {
    if (!source.needs || source.needs->device_free_bytes) continue;
    const uint64_t bytes = saturating_add(source.needs->weight_bytes, source.needs->least_kv_bytes);
    if (bytes <= *models.options.memory_bytes) continue;
    log(LogLevel::warning, "server",
        "the model " + in_quotes(source.name) + " needs " + approximate_bytes(bytes) +
            ", and all models together may take " +
            approximate_bytes(*models.options.memory_bytes) +
            " (memory) – requests for it will be refused");
  }
}

// What the system can give, less what the models were promised and have not touched yet.
uint64_t free_beside(uint64_t held_bytes) {
  const ProcessMemory memory = process_memory();
  const uint64_t touched = memory.anonymous_bytes + memory.file_bytes;
  const uint64_t untouched = held_bytes - std::min(held_bytes, touched);
  const uint64_t available = available_memory_bytes();
  return available - std::min(available, untouched);
}

}  // namespace

std::string ModelsToServe::names() const {
  std::vector<std::string> all;
  for (const server::ModelSource& source : sources) {
    all.push_back(source.name);
    const uint32_t engines = source.loaded == nullptr ? 1 : source.loaded->replicas;
    if (engines > 1) all.back() += " (" + std::to_string(engines) + " replicas)";
  }
  return join(all);
}

Result<ModelsToServe> models_to_serve(const ModelFlags& flags) {
  ModelsToServe models;
  TENON_ASSIGN_OR_RETURN(const auto idle, idle_time(flags.idle_unload));
  TENON_ASSIGN_OR_RETURN(const auto memory, memory_of(flags.memory));
  ModelsFile file;
  if (!flags.file.empty()) {
    TENON_ASSIGN_OR_RETURN(file, load_models_file(flags.file));
  }
  std::vector<Spec> specs;
  for (const ListedModel& model : file.models) {
    Spec& spec = specs.emplace_back(file_spec(model, flags));
    if (spec.keep) continue;
    const auto own = model.idle_unload_ns ? model.idle_unload_ns : idle;
    spec.idle_unload_ns = own ? *own : file.idle_unload_ns.value_or(0);
  }
  for (const std::string& text : flags.listed) {
    TENON_ASSIGN_OR_RETURN(Spec spec, listed_spec(text, flags));
    if (!spec.keep) spec.idle_unload_ns = idle ? *idle : file.idle_unload_ns.value_or(0);
    specs.push_back(std::move(spec));
  }
  if (specs.empty()) {
    specs.push_back({.flags = flags.pipeline,
                     .chat_template = flags.chat_template,
                     .random_seeds = flags.random_seeds});
  }
  TENON_RETURN_IF_ERROR(allow_adapters(flags, file, specs));
  TENON_RETURN_IF_ERROR(check_names(specs));
  const bool any_on_demand =
      std::ranges::any_of(specs, [](const Spec& spec) { return !spec.keep; });
  if (!any_on_demand && (idle || memory || flags.max_loaded)) {
    return invalid_argument(
        "--idle-unload, --models-memory and --max-loaded are about models that are loaded on "
        "demand, "
        "and there is none – say --on-demand, or list them in a file for --models");
  }
  TENON_RETURN_IF_ERROR(check_pipelines(specs));
  const auto weights = std::make_shared<SharedWeights>();
  for (Spec& spec : specs) {
    TENON_ASSIGN_OR_RETURN(server::ModelSource source, source_of(std::move(spec), weights));
    models.sources.push_back(std::move(source));
  }
  models.options.memory_bytes = memory ? memory : file.memory_bytes;
  warn_of_no_room(models);
  models.options.max_loaded = flags.max_loaded.value_or(file.max_loaded);
  if (file.load_wait_ns) models.options.load_wait = std::chrono::nanoseconds(*file.load_wait_ns);
  models.options.free_bytes = free_beside;
  models.options.say = [](const std::string& line) { say(line); };
  return models;
}

}  // namespace tenon
