// A pipeline over several ranks: all of them build it at the same time, each with its part of the
// model, and agree where they could differ (docs/parallel.md).
#include <tenon/abi_generated.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/exec/ranks/leading_executor.h"
#include "core/exec/ranks/stages.h"
#include "core/parallel/message.h"
#include "core/pipeline/composing/composing.h"

namespace tenon {
namespace {

// srun without PMIx: its tasks are processes of their own.
bool are_tasks_without_pmix() {
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  return tasks != nullptr && std::strtol(tasks, nullptr, 10) > 1;
}

std::string number_of_processes(uint32_t count) {
  return count == 1 ? "one process" : std::to_string(count) + " processes";
}

// The key that asks for the most processes.
struct AskingKey {
  std::string_view name;
  const Configured<uint32_t>& key;
};
AskingKey asking_key(const PipelineConfig& config) {
  AskingKey most{"parallel.tensor", config.tensor_ranks};
  if (config.pipeline_ranks.value > most.key.value) {
    return {"parallel.pipeline", config.pipeline_ranks};
  }
  if (config.expert_ranks.value > most.key.value) return {"parallel.expert", config.expert_ranks};
  return most;
}

std::string key_of(const PipelineConfig& config) {
  return std::string(asking_key(config).name);
}

// "pipeline.toml:4:1: parallel.tensor is 2"
std::string setting_of(const PipelineConfig& config) {
  const AskingKey asking = asking_key(config);
  const std::string setting = key_of(config) + " is " + std::to_string(asking.key.value);
  // Nobody set a default.
  return asking.key.value == 1 ? setting : asking.key.origin.text() + ": " + setting;
}

// Keys of [parallel] that cannot stand together, or have no effect.
Status check_together(const PipelineConfig& config) {
  const uint32_t tensor = config.tensor_ranks.value, stages = config.pipeline_ranks.value;
  const uint32_t experts = config.expert_ranks.value;
  const uint32_t cut = std::max(tensor, experts);
  const std::string cutting = experts > tensor ? "parallel.expert" : "parallel.tensor";
  if (cut > 1 && stages > 1) {
    return unsupported(config.pipeline_ranks.origin.text() + ": parallel.pipeline is " +
                       std::to_string(stages) + " and " + cutting + " is " + std::to_string(cut) +
                       ", but processes have layers of their own or parts of all layers, not both; "
                       "set one of them to 1");
  }
  if (experts > 1 && tensor > 1 && tensor != experts) {
    return invalid_argument(config.expert_ranks.origin.text() + ": parallel.expert is " +
                            std::to_string(experts) + " and parallel.tensor is " +
                            std::to_string(tensor) +
                            ", but the same processes share out experts and cut all else; set both "
                            "to one number, or leave parallel.tensor out");
  }
  if (config.reduce_ranks.value && cut == 1) {
    return invalid_argument(config.reduce_ranks.origin.text() +
                            ": parallel.reduce has no effect without parallel.tensor, which is 1; "
                            "leave it out");
  }
  return {};
}

// Devices have columns of all layers; the other ways to share out a model are the processor's.
Status check_device_ranks(const PipelineConfig& config) {
  const auto refuse = [](const std::string& setting, const std::string& instead) {
    return unsupported(setting + ", but executor \"cuda\" cuts a model by columns alone; " +
                       instead + ", or executor.plugin = \"cpu\"");
  };
  const auto number = [&](const std::string& key, const Configured<uint32_t>& ranks) {
    return refuse(ranks.origin.text() + ": " + key + " is " + std::to_string(ranks.value),
                  "set parallel.tensor in its place");
  };
  if (config.pipeline_ranks.value > 1) return number("parallel.pipeline", config.pipeline_ranks);
  if (config.expert_ranks.value > 1) return number("parallel.expert", config.expert_ranks);
  if (config.tensor_ranks.value > 1 && config.data_replicas.value > 1) {
    return unsupported(config.data_replicas.origin.text() + ": parallel.data is " +
                       std::to_string(config.data_replicas.value) + " and parallel.tensor is " +
                       std::to_string(config.tensor_ranks.value) +
                       ", but engines that share devices would gather there in orders of their "
                       "own, and wait for each other forever; set parallel.data = 1, or "
                       "executor.plugin = \"cpu\"");
  }
  if (!config.reduce_ranks.value) return {};
  return refuse(config.reduce_ranks.origin.text() + ": parallel.reduce is true",
                "set parallel.reduce = false");
}

// What ranks must have in common before anything of the model is used, a line each.
std::string identity_of(const PlacedModels& pipeline) {
  return "build " TENON_SDK_VERSION " (boundary " TENON_BOUNDARY_HASH ")\ninstruction set " +
         std::string(cpu_isa_name(pipeline.host.cpu)) + "\nmodel " + pipeline.cut.fingerprint;
}

// The first line in which they differ: "has build 1 (…), but rank 0 has build 2 (…)".
std::string difference(const std::string& own, const std::string& others, uint32_t other_rank) {
  const std::string other_name = "rank " + std::to_string(other_rank);
  size_t first = 0;
  while (first < own.size()) {
    const std::string one = own.substr(first, own.find('\n', first) - first);
    const std::string other = others.substr(first, others.find('\n', first) - first);
    if (one != other) return "has " + one + ", but " + other_name + " has " + other;
    first += one.size() + 1;
  }
  return "differs from " + other_name;
}

// Blocks and slots, of the cache and of the swap pool.
struct Rooms {
  uint32_t blocks = UINT32_MAX, slots = UINT32_MAX, swap_blocks = UINT32_MAX,
           swap_slots = UINT32_MAX;

  void lower_to(const Rooms& other) {
    blocks = std::min(blocks, other.blocks);
    slots = std::min(slots, other.slots);
    swap_blocks = std::min(swap_blocks, other.swap_blocks);
    swap_slots = std::min(swap_slots, other.swap_slots);
  }
};

Rooms rooms_of(const PlannedMemory& pipeline) {
  Rooms rooms;
  const ModelShape& shape = pipeline.kv_shape();
  for (GroupId group = 0; group < shape.group_count; ++group) {
    const KvGroupGeometry& has = pipeline.group_geometry[group];
    if (shape.groups[group].kind == KvKind::recurrent) {
      rooms.lower_to({UINT32_MAX, has.blocks, UINT32_MAX, has.swap_blocks});
    } else {
      rooms.lower_to({has.blocks, UINT32_MAX, has.swap_blocks, UINT32_MAX});
    }
  }
  return rooms;
}

void take_rooms(PlannedMemory& pipeline, const Rooms& rooms) {
  const ModelShape& shape = pipeline.kv_shape();
  for (GroupId group = 0; group < shape.group_count; ++group) {
    KvGroupGeometry& has = pipeline.group_geometry[group];
    const bool recurrent = shape.groups[group].kind == KvKind::recurrent;
    has.blocks = recurrent ? rooms.slots : rooms.blocks;
    has.swap_blocks = recurrent ? rooms.swap_slots : rooms.swap_blocks;
  }
}

// What a rank tells the others of how it fares: an error's text, or nothing wrong and a text.
std::string report_of(const Status& status, const std::string& text) {
  return status.ok() ? "+" + text : "-" + message_of(status);
}

// All ranks' texts where none has an error. An error that all of them have is no rank's own.
Result<std::vector<std::string>> agree(Collective& ranks, Status own, const std::string& text) {
  TENON_ASSIGN_OR_RETURN(std::vector<std::string> reports,
                         gather_texts(ranks, report_of(own, text)));
  if (!own.ok()) {
    // Each says it by where its own configuration has it.
    const bool shared = std::ranges::none_of(
        reports, [](const std::string& report) { return report.starts_with('+'); });
    return shared ? std::move(own)
                  : with_context(name_of_rank(ranks.rank(), ranks.places()[ranks.rank()]), own);
  }
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (!reports[rank].empty() && reports[rank].front() == '+') {
      reports[rank].erase(0, 1);
      continue;
    }
    return failed(name_of_rank(rank, ranks.places()[rank]) + ": " +
                  (reports[rank].empty() ? "it said nothing" : reports[rank].substr(1)));
  }
  return reports;
}

// One that differs from most is named; of two, the one that is not rank 0.
Status check_equal(Collective& ranks, const std::vector<std::string>& texts) {
  const auto usual = std::ranges::max_element(
      texts, {}, [&](const std::string& text) { return std::ranges::count(texts, text); });
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (texts[rank] == *usual) continue;
    const auto other = static_cast<uint32_t>(usual - texts.begin());
    return failed(name_of_rank(rank, ranks.places()[rank]) + " " +
                  difference(texts[rank], *usual, other) + "; all ranks must have the same");
  }
  return {};
}

}  // namespace

Status check_ranks(const PipelineRequest& request) {
  const PipelineConfig& config = request.config;
  // A simulation has the first rank's part, and no others run.
  if (config.executor.value == "sim" && request.ranks == nullptr) return {};
  TENON_RETURN_IF_ERROR(check_together(config));
  const uint32_t wanted = config.processes();
  const std::string& executor = config.executor.value;
  if (wanted > 1 && executor != "cpu" && executor != "cuda") {
    return unsupported(setting_of(config) + ", but executor \"" + executor +
                       "\" runs a model in one process; set executor.plugin = \"cpu\", or " +
                       key_of(config) + " = 1");
  }
  if (executor == "cuda") TENON_RETURN_IF_ERROR(check_device_ranks(config));
  const uint32_t here = request.ranks != nullptr ? request.ranks->size() : 1;
  if (here == wanted || !request.load_weights) return {};
  if (here == 1) {
    const std::string number = std::to_string(wanted);
    if (are_tasks_without_pmix()) {
      return invalid_argument(setting_of(config) +
                              ", but Slurm's tasks know nothing of each other here; start them by "
                              "srun --mpi=pmix -n " +
                              number + ", or by mpirun -n " + number);
    }
    return invalid_argument(setting_of(config) +
                            ", but this is one process; start it with --launch " + number +
                            ", or by mpirun -n " + number);
  }
  return invalid_argument(setting_of(config) + ", but " + number_of_processes(here) +
                          " were started; set " + key_of(config) + " = " + std::to_string(here) +
                          ", or start " + number_of_processes(wanted));
}

void share_memory_with_ranks(PipelineRequest& request) {
  if (request.ranks == nullptr) {
    // What is only shown is shown as if all ranks were on this machine.
    request.available_memory_bytes /= request.config.processes();
    request.total_memory_bytes /= request.config.processes();
    return;
  }
  const RankPlace& place = request.ranks->places()[request.ranks->rank()];
  request.available_memory_bytes /= place.on_host;
  request.total_memory_bytes /= place.on_host;
  if (request.host.workers == 0) request.host.workers = place.cores;
}

Result<ModelCut> cut_for_rank(const PipelineRequest& request, Model& model, uint32_t rank) {
  const PipelineConfig& config = request.config;
  if (config.pipeline_ranks.value > 1) {
    auto cut = cut_layers(model, rank, config.pipeline_ranks.value);
    if (!cut.ok()) return with_context(setting_of(config), cut.status());
    return cut;
  }
  const bool changed = !config.adapters.empty();
  ModelCut cut = cut_model(model, {.rank = rank,
                                   .ranks = config.processes(),
                                   .whole = changed ? "adapters change its products" : "",
                                   .reduce = config.reduce_ranks.value,
                                   .experts = config.expert_ranks.value > 1 && !changed});
  if (config.expert_ranks.value > 1 && !cut.shares_experts()) {
    return unsupported(setting_of(config) +
                       (changed ? ", but adapters change products of experts; remove them"
                                : ", but no layer of this " + model.plan.architecture +
                                      " model has so many experts; set a smaller number") +
                       ", or parallel.tensor in its place");
  }
  if (config.reduce_ranks.value && !cut.adds()) {
    return unsupported(config.reduce_ranks.origin.text() +
                       ": parallel.reduce is true, but no product of this model can be cut along "
                       "K, since " +
                       (changed ? "adapters change its products"
                                : "its formats, heads and widths do not divide so") +
                       "; set parallel.reduce = false");
  }
  return cut;
}

Status join_ranks(PlacedModels& pipeline) {
  if (pipeline.ranks == nullptr) return {};
  auto* host = dynamic_cast<RankHost*>(pipeline.executor.get());
  if (host == nullptr) {
    return unsupported("executor \"" + std::string(pipeline.executor->name()) +
                       "\" cannot be one of several ranks");
  }
  host->join(*pipeline.ranks, pipeline.cut);
  return {};
}

Status check_what_ranks_run(const StrategyPlugins& pipeline) {
  const bool is_staged = !pipeline.cut.stages.empty();
  if (pipeline.scores == nullptr || (!pipeline.cut.any_by_heads() && !is_staged)) return {};
  return unsupported(
      setting_of(pipeline.config) + ", but kv_cache \"" + pipeline.config.kv_cache.plugin.value +
      "\" evicts by the weight that all heads give to an entry, and a rank has some " +
      (is_staged ? "layers" : "heads") + " alone; use another kv_cache, or " +
      key_of(pipeline.config) + " = 1");
}

// Hidden states of a layer stay with the rank that runs it; those of the end come with the logits.
Status check_shown_to_drafter(const BoundPlugins& pipeline) {
  if (pipeline.cut.stages.empty()) return {};
  const auto layers = static_cast<LayerId>(pipeline.model->plan.layers.size());
  const bool inside = std::ranges::any_of(pipeline.hidden_layers,
                                          [layers](LayerId layer) { return layer < layers; });
  if (!inside) return {};
  return unsupported(pipeline.config.drafter->plugin.origin.text() + ": drafter \"" +
                     pipeline.config.drafter->plugin.value +
                     "\" reads hidden states between layers, which stay with the processes that "
                     "have these; use another drafter, or parallel.pipeline = 1");
}

Status agree_on_plan(PlannedMemory& pipeline, Status planned) {
  if (pipeline.ranks == nullptr) return planned;
  Collective& ranks = *pipeline.ranks;
  MessageWriter own;
  if (planned.ok()) {
    own.number(rooms_of(pipeline));
    own.text(identity_of(pipeline));
  }
  const std::string text(reinterpret_cast<const char*>(own.bytes().data()), own.bytes().size());
  TENON_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                         agree(ranks, std::move(planned), text));
  Rooms least;
  std::vector<std::string> identities;
  for (const std::string& of_rank : texts) {
    MessageReader reader(std::as_bytes(std::span(of_rank)));
    least.lower_to(reader.number<Rooms>());
    identities.push_back(reader.text());
  }
  TENON_RETURN_IF_ERROR(check_equal(ranks, identities));
  take_rooms(pipeline, least);
  return {};
}

Status agree_on_load(PlannedMemory& pipeline, Status loaded) {
  if (pipeline.ranks == nullptr) return loaded;
  return agree(*pipeline.ranks, std::move(loaded), "").take_status();
}

Status lead_or_follow(Pipeline& pipeline) {
  if (pipeline.ranks == nullptr) return {};
  Collective& ranks = *pipeline.ranks;
  if (auto* host = dynamic_cast<RankHost*>(pipeline.executor.get())) {
    TENON_RETURN_IF_ERROR(host->meet());
  }
  const std::string own = "numerics id " + pipeline.numerics + "\n" +
                          std::to_string(pipeline.executor->weight_bytes()) + " " +
                          std::to_string(pipeline.executor->kv_bytes());
  TENON_ASSIGN_OR_RETURN(const std::vector<std::string> texts, agree(ranks, {}, own));
  std::vector<std::string> numerics;
  for (const std::string& text : texts) numerics.push_back(text.substr(0, text.find('\n')));
  TENON_RETURN_IF_ERROR(check_equal(ranks, numerics));
  const uint64_t number = ranks.count_pipeline();
  if (!pipeline.cut.stages.empty()) {
    pipeline.executor = make_staged_executor(std::move(pipeline.executor), ranks, pipeline.cut,
                                             pipeline.model->plan.hidden);
  }
  if (ranks.rank() != 0) return {};
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string bytes = texts[rank].substr(texts[rank].find('\n') + 1);
    const uint64_t weights = std::strtoull(bytes.c_str(), nullptr, 10);
    const uint64_t kv = std::strtoull(bytes.c_str() + bytes.find(' '), nullptr, 10);
    log(LogLevel::info, "ranks",
        name_of_rank(rank, ranks.places()[rank]) + ": weights " + approximate_bytes(weights) +
            ", K/V " + approximate_bytes(kv));
  }
  pipeline.executor = make_leading_executor(std::move(pipeline.executor), ranks, number);
  return {};
}

}  // namespace tenon
