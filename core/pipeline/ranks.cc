// A pipeline over several ranks: all of them build it at the same time, each with its part of the
// model, and agree where they could differ (docs/parallel.md).
#include <tenon/abi_generated.h>

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/exec/ranks/leading_executor.h"
#include "core/parallel/message.h"
#include "core/pipeline/composing.h"

namespace tenon {
namespace {

std::string number_of_processes(uint32_t count) {
  return count == 1 ? "one process" : std::to_string(count) + " processes";
}

std::string setting_of(const PipelineConfig& config) {
  const std::string setting = "parallel.tensor is " + std::to_string(config.tensor_ranks.value);
  // Nobody set a default.
  return config.tensor_ranks.value == 1 ? setting
                                        : config.tensor_ranks.origin.text() + ": " + setting;
}

// What ranks must have in common before anything of the model is used, a line each.
std::string identity_of(const PlacedModels& pipeline) {
  return "build " TENON_SDK_VERSION " (boundary " TENON_BOUNDARY_HASH ")\ninstruction set " +
         std::string(cpu_isa_name(pipeline.host.cpu)) + "\nmodel " + pipeline.cut.fingerprint;
}

// The first line in which they differ: "has build 1 (…), but rank 0 has build 2 (…)".
std::string difference(const std::string& own, const std::string& leading) {
  size_t first = 0;
  while (first < own.size()) {
    const std::string one = own.substr(first, own.find('\n', first) - first);
    const std::string other = leading.substr(first, leading.find('\n', first) - first);
    if (one != other) return "has " + one + ", but rank 0 has " + other;
    first += one.size() + 1;
  }
  return "differs from rank 0";
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

// All ranks' texts where none has an error.
Result<std::vector<std::string>> agree(Collective& ranks, Status own, const std::string& text) {
  TENON_ASSIGN_OR_RETURN(std::vector<std::string> reports,
                         gather_texts(ranks, report_of(own, text)));
  if (!own.ok()) return own;
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

Status check_equal(Collective& ranks, const std::vector<std::string>& texts) {
  for (uint32_t rank = 1; rank < ranks.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    return failed(name_of_rank(rank, ranks.places()[rank]) + " " +
                  difference(texts[rank], texts[0]) + "; all ranks must have the same");
  }
  return {};
}

}  // namespace

Status check_ranks(const PipelineRequest& request) {
  const PipelineConfig& config = request.config;
  const uint32_t wanted = config.tensor_ranks.value;
  // A simulation has the first rank's part, and no others run.
  if (config.executor.value == "sim" && request.ranks == nullptr) return {};
  if (wanted > 1 && config.executor.value != "cpu") {
    return unsupported(setting_of(config) + ", but executor \"" + config.executor.value +
                       "\" runs a model in one process; set executor.plugin = \"cpu\", or "
                       "parallel.tensor = 1");
  }
  const uint32_t here = request.ranks != nullptr ? request.ranks->size() : 1;
  if (here == wanted || !request.load_weights) return {};
  if (here == 1) {
    return invalid_argument(setting_of(config) +
                            ", but this is one process; start it with --launch " +
                            std::to_string(wanted) + ", or by mpirun -n " + std::to_string(wanted));
  }
  return invalid_argument(setting_of(config) + ", but " + number_of_processes(here) +
                          " were started; set parallel.tensor = " + std::to_string(here) +
                          ", or start " + number_of_processes(wanted));
}

void share_memory_with_ranks(PipelineRequest& request) {
  if (request.ranks == nullptr) {
    // What is only shown is shown as if all ranks were on this machine.
    request.available_memory_bytes /= request.config.tensor_ranks.value;
    request.total_memory_bytes /= request.config.tensor_ranks.value;
    return;
  }
  const RankPlace& place = request.ranks->places()[request.ranks->rank()];
  request.available_memory_bytes /= place.on_host;
  request.total_memory_bytes /= place.on_host;
  if (request.host.workers == 0) request.host.workers = place.cores;
}

ModelCut cut_for_rank(const PipelineRequest& request, Model& model) {
  const bool changed = !request.config.adapters.empty();
  const std::string whole = changed ? "adapters change its products" : "";
  if (request.ranks != nullptr) {
    return cut_heads(model, request.ranks->rank(), request.ranks->size(), whole);
  }
  return cut_heads(model, 0, request.config.tensor_ranks.value, whole);
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
  if (pipeline.scores == nullptr || !pipeline.cut.any_by_heads()) return {};
  return unsupported(setting_of(pipeline.config) + ", but kv_cache \"" +
                     pipeline.config.kv_cache.plugin.value +
                     "\" evicts by the weight that all heads give to an entry, and a rank has some "
                     "heads alone; use another kv_cache, or parallel.tensor = 1");
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
  const std::string own = "numerics id " + pipeline.numerics + "\n" +
                          std::to_string(pipeline.executor->weight_bytes()) + " " +
                          std::to_string(pipeline.executor->kv_bytes());
  TENON_ASSIGN_OR_RETURN(const std::vector<std::string> texts, agree(ranks, {}, own));
  std::vector<std::string> numerics;
  for (const std::string& text : texts) numerics.push_back(text.substr(0, text.find('\n')));
  TENON_RETURN_IF_ERROR(check_equal(ranks, numerics));
  const uint64_t number = ranks.count_pipeline();
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
