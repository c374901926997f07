// Tiers of K/V, and other workers that it goes to: whether a pipeline can have them, what its K/V
// follow from, and opening them.
#include <algorithm>
#include <memory>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/exec/kv_bytes.h"
#include "core/pipeline/composing/composing.h"
#include "core/tiers/disk_store.h"
#include "core/tiers/host_store.h"
#include "core/tiers/kv_file.h"
#include "core/tiers/plugin_store.h"

namespace tenon {
namespace {

bool has_tiers(const PipelineConfig& config) {
  return config.kv_tiers.front().kind.value != TierKind::none;
}

bool is_disaggregated(const PipelineConfig& config) {
  return config.disaggregation.role.value != DisaggregationRole::none;
}

Status refuse(const PipelineConfig& config, const std::string& why) {
  if (is_disaggregated(config)) {
    return unsupported(config.disaggregation.role.origin.text() +
                       ": prefill and decode are to be apart, but " + why);
  }
  return unsupported(config.kv_tiers.front().kind.origin.text() +
                     ": there are [[kv_cache.tiers]], but " + why);
}

std::string_view kind_name(KvKind kind) {
  switch (kind) {
    case KvKind::latent:
      return "latent";
    case KvKind::recurrent:
      return "state";
    default:
      return "attention";
  }
}

std::string group_line(const BoundPlugins& pipeline, GroupId id, uint64_t bytes) {
  const KvGroup& group = pipeline.shape->shape().groups[id];
  const KvGroupGeometry& sizes = pipeline.geometry.groups[id];
  const auto number = [](std::string_view name, uint64_t value) {
    return " " + std::string(name) + "=" + std::to_string(value);
  };
  return "group " + std::to_string(id) + " " + std::string(kind_name(group.kind)) +
         number("layers", group.layers) + number("heads", group.kv_heads) +
         number("k", group.k_dim) + number("v", group.v_dim) +
         number("window", group.window_tokens) + " dtype=" + std::string(dtype_name(sizes.dtype)) +
         number("block", sizes.block_tokens) + number("bytes", bytes) + "\n";
}

// Where no group has blocks of tokens, managers keep states after so many.
uint32_t node_tokens(const BoundPlugins& pipeline) {
  constexpr uint32_t kUsual = 16;
  const ResolvedFact* agreed = pipeline.facts.find("kv.block_tokens");
  return agreed == nullptr ? kUsual : static_cast<uint32_t>(std::max<int64_t>(agreed->number, 1));
}

Result<TierWorld> world_of(const Pipeline& pipeline) {
  TierWorld world;
  const KvBytes& blocks = *pipeline.executor->kv_blocks();
  TENON_ASSIGN_OR_RETURN(const std::string weights, weight_contents(pipeline.model->path));
  world.text = "Tenon K/V, version 1\nmodel " + weights + "\n";
  if (!pipeline.config.model_as.value.empty()) {
    world.text += "as " + pipeline.config.model_as.value + "\n";
  }
  world.text += "numerics " + pipeline.numerics + "\ncontext " +
                std::to_string(pipeline.limits.context_tokens) + "\n";
  world.block_tokens = node_tokens(pipeline);
  const ModelShape& shape = pipeline.shape->shape();
  for (GroupId id = 0; id < shape.group_count; ++id) {
    const bool recurs = shape.groups[id].kind == KvKind::recurrent;
    const uint64_t bytes = blocks.block_bytes(id);
    world.groups.push_back({id, bytes, recurs});
    world.text += group_line(pipeline, id, bytes);
    if (!recurs) world.block_tokens = pipeline.geometry.groups[id].block_tokens;
  }
  world.text += "states every " + std::to_string(world.block_tokens) + "\n";
  for (const NamedAdapter& adapter : pipeline.config.adapters) {
    TENON_ASSIGN_OR_RETURN(std::string contents, weight_contents(adapter.path.value));
    world.adapters.push_back(std::move(contents));
  }
  return world;
}

// Those of tiers that plugins keep: found, and their options filled in.
Status choose_stores(const PipelineRequest& request, BoundPlugins& pipeline) {
  std::vector<std::string> faults;
  for (size_t i = 0; i < pipeline.config.kv_tiers.size(); ++i) {
    const TierConfig& tier = pipeline.config.kv_tiers[i];
    if (tier.kind.value != TierKind::plugin) continue;
    const auto choose = [&]() -> Status {
      TENON_ASSIGN_OR_RETURN(const PluginRef plugin,
                             request.registry->find_usable(kKvStoreInterface, tier.plugin.value,
                                                           pipeline.host, tier.plugin.origin));
      TENON_ASSIGN_OR_RETURN(FilledOptions options, fill_options(*plugin.descriptor, tier.options));
      const auto items = options.items();
      pipeline.components.push_back({"kv_cache.tiers." + std::to_string(i + 1),
                                     std::string(plugin.descriptor->id),
                                     {items.begin(), items.end()}});
      pipeline.chosen_stores.push_back({plugin, std::move(options)});
      return {};
    };
    if (const Status status = choose(); !status.ok()) faults.emplace_back(status.message());
  }
  return faults.empty() ? Status() : invalid_argument(join(faults, "\n"));
}

// Seconds that stores are waited for are real ones.
const Clock& tier_clock() {
  static const WallClock kClock;
  return kClock;
}

Status make_stores(Pipeline& pipeline) {
  const bool closely = pipeline.config.guard.value != GuardLevel::off;
  for (ChosenStore& chosen : std::exchange(pipeline.chosen_stores, {})) {
    TENON_ASSIGN_OR_RETURN(PluginInstance<KvStore> made,
                           PluginInstance<KvStore>::create(chosen.plugin, std::move(chosen.options),
                                                           surroundings_of(pipeline)));
    pipeline.kv_stores.push_back(std::make_shared<StorePlugin>(
        std::move(made), closely ? CallChecks::more : CallChecks::usual));
  }
  return {};
}

Result<std::unique_ptr<TierStore>> open_store(const TierConfig& tier, const std::string& world) {
  if (tier.kind.value == TierKind::host) {
    return std::unique_ptr<TierStore>(std::make_unique<HostStore>(tier.memory_bytes.value));
  }
  auto opened = DiskStore::open(tier.path.value, tier.memory_bytes.value, world, make_file_layer());
  if (!opened.ok()) return with_context(tier.path.origin.text(), opened.status());
  return std::unique_ptr<TierStore>(*std::move(opened));
}

// Others are told where to fetch K/V: no address that stands for all of a machine's.
bool names_a_machine(const std::string& address) {
  return !address.starts_with("0.0.0.0:") && !address.starts_with("[::]:");
}

Result<std::unique_ptr<KvTransfer>> open_transfer(const PipelineConfig& config,
                                                  const TierWorld& world, bool listens) {
  const DisaggregationConfig& asked = config.disaggregation;
  if (!names_a_machine(asked.address.value)) {
    return invalid_argument(asked.address.origin.text() + ": disaggregation.address is " +
                            in_quotes(asked.address.value) +
                            ", by which no other machine finds this one – set the name or address "
                            "by which others reach it");
  }
  TransferOptions options;
  options.role = static_cast<WorkerRole>(asked.role.value);
  options.address = listens ? asked.address.value : "";
  options.peers = asked.peers.value;
  options.memory_bytes = asked.memory_bytes.value;
  options.budget_bytes = config.kv_io_budget_bytes.value;
  options.lease = std::chrono::nanoseconds(asked.lease_ns.value);
  auto opened = KvTransfer::open(std::move(options), world, make_socket_transport());
  if (opened.ok()) return opened;
  return with_context(asked.role.origin.text(), opened.status());
}

// A tier that no block fits into would keep nothing, without a word.
Status check_room(const PipelineConfig& config, const TierWorld& world) {
  const auto largest = std::ranges::max_element(world.groups, {}, &TierGroup::bytes);
  if (largest == world.groups.end()) return {};
  for (size_t i = 0; i < config.kv_tiers.size(); ++i) {
    const TierConfig& tier = config.kv_tiers[i];
    const bool is_disk = tier.kind.value == TierKind::disk;
    if (!is_disk && tier.kind.value != TierKind::host) continue;
    const uint64_t needed = largest->bytes + (is_disk ? kKvHeaderBytes : 0);
    if (tier.memory_bytes.value >= needed) continue;
    return invalid_argument(
        tier.memory_bytes.origin.text() + ": kv_cache.tiers." + std::to_string(i + 1) +
        ".memory is " + std::to_string(tier.memory_bytes.value) + " bytes, but " +
        (largest->is_state ? std::string("a state of recurrent layers")
                           : "a block of " + std::to_string(world.block_tokens) + " tokens") +
        " takes " + std::to_string(needed) + " there – raise it");
  }
  return {};
}

}  // namespace

StorePlugin::StorePlugin(PluginInstance<KvStore> made, CallChecks checks)
    : plugin(std::move(made)),
      checked(*plugin, std::string(plugin.object().descriptor().id), checks) {}

Status check_tiers(const PipelineRequest& request, BoundPlugins& pipeline) {
  const PipelineConfig& config = pipeline.config;
  if (!has_tiers(config) && !is_disaggregated(config)) return {};
  const PluginDescriptor& manager = pipeline.kv_cache.object().descriptor();
  if (most_provided(manager, "kv.snapshots") == 0) {
    return refuse(config, "kv_cache " + in_quotes(manager.id) +
                              " keeps nothing of sequences that ended, and what comes from " +
                              (is_disaggregated(config) ? "another worker" : "a tier") +
                              " would be lost – set kv_cache.plugin to \"prefix\" or \"radix\"");
  }
  if (pipeline.model->plan.mask_token) {
    return refuse(config, "the " + pipeline.model->plan.architecture +
                              " model generates by diffusion, which keeps no K/V – remove them");
  }
  if (pipeline.executor->kv_blocks() == nullptr) {
    return refuse(config, "the executor " + in_quotes(pipeline.executor->name()) +
                              " does not hand out the bytes of its blocks – remove them, or set "
                              "executor.plugin to \"cpu\"");
  }
  if (const uint32_t processes = config.processes(); processes > 1) {
    return refuse(config, "[parallel] cuts the model over " + std::to_string(processes) +
                              " processes, each of which keeps its own part of K and V alone – " +
                              (is_disaggregated(config) ? "leave the role out" : "remove them") +
                              ", or run one process");
  }
  return choose_stores(request, pipeline);
}

Status open_tiers(const PipelineRequest& request, Pipeline& pipeline) {
  const PipelineConfig& config = pipeline.config;
  if (!has_tiers(config) && !is_disaggregated(config)) return {};
  TENON_ASSIGN_OR_RETURN(TierWorld world, world_of(pipeline));
  TENON_RETURN_IF_ERROR(check_room(config, world));
  if (is_disaggregated(config)) {
    TENON_ASSIGN_OR_RETURN(pipeline.transfer, open_transfer(config, world, request.replica == 0));
  }
  if (!has_tiers(config)) return {};
  TENON_RETURN_IF_ERROR(make_stores(pipeline));
  std::vector<std::unique_ptr<TierStore>> stores;
  auto plugin = pipeline.kv_stores.begin();
  for (const TierConfig& tier : config.kv_tiers) {
    if (tier.kind.value == TierKind::none) continue;
    if (tier.kind.value == TierKind::plugin) {
      const std::shared_ptr<StorePlugin>& made = *plugin++;
      stores.push_back(std::make_unique<PluginStore>(
          std::string(made->plugin.object().descriptor().id),
          std::shared_ptr<KvStore>(made, &made->checked), world.text, tier_clock()));
      continue;
    }
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<TierStore> store, open_store(tier, world.text));
    stores.push_back(std::move(store));
  }
  pipeline.tiers =
      std::make_unique<Tiers>(std::move(world), std::move(stores), config.kv_io_budget_bytes.value);
  return {};
}

}  // namespace tenon
