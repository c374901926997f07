// Attention on host memory: paged and contiguous caches of f32, f16, bf16, i8 and i4, any block
// size, grouped query heads, sliding windows, soft caps.
//
// Three phases at most: rows of K and V into the cache; attention, item by item; and the merging of
// items that were cut into ranges of positions. A batch of one row needs no phase to store: nobody
// but the item that attends to the row's position reads what is stored there. (Rows of several
// sequences may read each other's in shared blocks.)
#include <tenon/attention.h>
#include <tenon/sdk/isa.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plugins/attention/cpu/kernels.h"
#include "plugins/attention/cpu/plan.h"

namespace tenon::attention_cpu {
namespace {

constexpr uint32_t kMaxContextTokens = 1u << 30;

const KernelSet& choose_kernels(const HostFacts& host) {
  return sdk::best_kernels<KernelSet>(host, {{kCpuPortable, &kPortableKernels},
                                             {kCpuAvx2, TENON_X86(&kAvx2Kernels)},
                                             {kCpuAvx512, TENON_X86(&kAvx512Kernels)}});
}

Status refuse(const std::string& message) {
  return Status::error(StatusCode::unsupported, message);
}
Status broken(const std::string& message) {
  return Status::error(StatusCode::internal, message);
}

Status check_group(const KvGroup& group) {
  if (group.kind != KvKind::attention || group.v_inside_k) {
    return refuse(
        "a KV group is not plain attention (latent or recurrent); \"cpu\" attends to "
        "separate K and V; choose an attention plugin for that model");
  }
  if (group.k_dim == 0 || group.v_dim == 0 || group.k_dim > kMaxHeadDim ||
      group.v_dim > kMaxHeadDim) {
    return refuse("heads have " + std::to_string(group.k_dim) + " and " +
                  std::to_string(group.v_dim) + " elements (K, V); \"cpu\" takes 1 to 256");
  }
  if (group.kv_heads == 0) return refuse("a KV group has no heads");
  return Status();
}

class CpuAttention final : public AttentionKernel {
 public:
  CpuAttention(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : kernels_(choose_kernels(*host.facts)) {}

  Status bind(const ModelShape& model, const KvStorage& storage,
              const AttentionLimits& limits) noexcept override {
    return sdk::guard([&] { return bind_or_throw(model, storage, limits); });
  }

  uint64_t workspace_bytes() const noexcept override {
    return (limits_.slices * scratch_floats_ + partial_floats_) * sizeof(float);
  }
  uint32_t phases() const noexcept override {
    const bool merges = std::ranges::any_of(
        plans_, [](const WorkPlan& plan) { return !plan.split_items().empty(); });
    return 1 + (stores_first_ ? 1 : 0) + (merges ? 1 : 0);
  }

  Status plan(GroupId group, const BatchView& batch, void* workspace) noexcept override {
    Status status = sdk::guard([&] { return check_batch(group, batch); });
    if (!status.ok()) return status;
    batch_ = &batch;
    workspace_ = static_cast<float*>(workspace);
    stores_first_ = batch.rows != 1;
    plans_[group].make(group, batch);
    return Status();
  }

  Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept override {
    const LayerTask task = layer_task(call);
    const WorkPlan& plan = plans_[model_->layer[call.layer].group];
    const uint32_t attending = stores_first_ ? 1 : 0;
    if (phase < attending && call.k != nullptr) store(task, call, slice);
    if (phase == attending) attend(task, plan, slice);
    if (phase > attending) combine(task, plan, slice);
    return Status();
  }

  std::string_view numerics() const noexcept override { return kernels_.name; }

 private:
  Status bind_or_throw(const ModelShape& model, const KvStorage& storage,
                       const AttentionLimits& limits) {
    if (storage.dtype > DType::i4) {
      return refuse("kv.dtype is " + std::string(dtype_name(storage.dtype)) +
                    "; \"cpu\" reads f32, f16, bf16, i8 and i4");
    }
    if (limits.context_tokens > kMaxContextTokens || limits.slices == 0) {
      return refuse("the context of " + std::to_string(limits.context_tokens) +
                    " tokens is beyond 2^30, or there is no slice");
    }
    model_ = &model;
    storage_ = &storage;
    limits_ = limits;
    plans_.clear();
    scratch_floats_ = 0;
    partial_floats_ = 0;
    for (GroupId group = 0; group < model.group_count; ++group) {
      Status status = add_group(group);
      if (!status.ok()) return status;
    }
    return Status();
  }

  Status add_group(GroupId id) {
    const KvGroup& group = model_->groups[id];
    Status status = check_group(group);
    if (!status.ok()) return status;
    if (id >= storage_->block_tokens.size() || storage_->block_tokens[id] == 0) {
      return broken("a KV group has no block size");
    }
    PlanLimits limits{.slices = limits_.slices,
                      .max_rows = limits_.max_rows,
                      .max_sequences = limits_.max_sequences,
                      .context_tokens = limits_.context_tokens,
                      .kv_heads = group.kv_heads,
                      .largest_group = 1,
                      .window_tokens = group.window_tokens};
    for (LayerId layer = 0; layer < model_->layers; ++layer) {
      if (model_->layer[layer].group != id) continue;
      const uint32_t heads = model_->layer[layer].query_heads;
      if (heads == 0 || heads % group.kv_heads != 0 || layer >= storage_->layers.size()) {
        return refuse("layer " + std::to_string(layer) + " has " + std::to_string(heads) +
                      " query heads, not a multiple of its " + std::to_string(group.kv_heads) +
                      " KV heads, or no storage");
      }
      limits.largest_group = std::max(limits.largest_group, heads / group.kv_heads);
    }
    limits.partial_queries = useful_partials(limits);
    scratch_floats_ = std::max(scratch_floats_, scratch_floats(group.k_dim, group.v_dim));
    partial_floats_ =
        std::max(partial_floats_, limits.partial_queries * partial_floats(group.v_dim));
    plans_.emplace_back(limits);
    return Status();
  }

  // What would make the kernel read or write out of range; the executor checks the rest.
  Status check_batch(GroupId id, const BatchView& batch) const {
    if (id >= plans_.size() || batch.rows > limits_.max_rows ||
        batch.sequences.size() > limits_.max_sequences || batch.slots.size() < batch.rows) {
      return broken("the batch has " + std::to_string(batch.rows) + " rows and " +
                    std::to_string(batch.sequences.size()) +
                    " sequences, more than was agreed when the attention kernel was bound");
    }
    if (!batch.tree_parents.empty()) {
      return refuse("rows form a tree; \"cpu\" attends along chains (attn.mask.tree = no)");
    }
    const uint64_t block_tokens = storage_->block_tokens[id];
    for (const BatchSequence& sequence : batch.sequences) {
      if (uint64_t{sequence.first_row} + sequence.rows > batch.rows ||
          id >= sequence.tables.size()) {
        return broken("a sequence's rows or tables are not in the batch");
      }
      const uint64_t tokens = sequence.tables[id].blocks.size() * block_tokens;
      for (uint32_t i = 0; i < sequence.rows; ++i) {
        const uint32_t slot = batch.slots[sequence.first_row + i];
        if (slot >= tokens || slot >= limits_.context_tokens) {
          return broken("row " + std::to_string(sequence.first_row + i) +
                        " is stored at position " + std::to_string(slot) +
                        ", behind its sequence's " + std::to_string(tokens) + " slots");
        }
      }
    }
    return Status();
  }

  LayerTask layer_task(const AttentionCall& call) const {
    const LayerShape& layer = model_->layer[call.layer];
    const KvGroup& group = model_->groups[layer.group];
    const KvLayerStorage& storage = storage_->layers[call.layer];
    return {.dtype = storage_->dtype,
            .k_plane = storage.k,
            .v_plane = storage.v,
            .block_tokens = storage_->block_tokens[layer.group],
            .kv_heads = group.kv_heads,
            .query_heads = layer.query_heads,
            .k_dim = group.k_dim,
            .v_dim = group.v_dim,
            // The group's window says which blocks a manager may drop.
            .window_tokens = layer.window_tokens != 0 ? layer.window_tokens : group.window_tokens,
            .scale = layer.scale,
            .soft_cap = layer.soft_cap,
            .slots = batch_->slots.data(),
            .q = call.q,
            .k = call.k,
            .v = call.v,
            .out = call.out};
  }

  // Slices share out rows x heads.
  void store(const LayerTask& task, const AttentionCall& call, Slice slice) const {
    const GroupId group = model_->layer[call.layer].group;
    const uint64_t units = uint64_t{batch_->rows} * task.kv_heads;
    const uint64_t begin = units * slice.index / slice.count;
    const uint64_t end = units * (slice.index + 1) / slice.count;
    for (const BatchSequence& sequence : batch_->sequences) {
      const uint64_t first = std::max(begin, uint64_t{sequence.first_row} * task.kv_heads);
      const uint64_t last =
          std::min(end, (uint64_t{sequence.first_row} + sequence.rows) * task.kv_heads);
      for (uint64_t unit = first; unit < last; ++unit) {
        kernels_.store(task, sequence.tables[group].blocks.data(),
                       static_cast<uint32_t>(unit / task.kv_heads),
                       static_cast<uint32_t>(unit % task.kv_heads));
      }
    }
  }

  // Slices beyond those agreed upon have no scratch memory and no work.
  void attend(const LayerTask& task, const WorkPlan& plan, Slice slice) const {
    const uint32_t shares = plan.limits().slices;
    const uint32_t step = std::min(slice.count, shares);
    if (slice.index >= step) return;
    float* scratch = workspace_ + slice.index * scratch_floats_;
    for (uint32_t share = slice.index; share < shares; share += step) {
      for (const WorkItem& item : plan.share(share)) {
        if (!stores_first_ && task.k != nullptr) store_own(task, item);
        kernels_.attend(task, item, scratch, partials());
      }
    }
  }

  // The K and V of an item's one row, by the one of its pieces that reads them.
  void store_own(const LayerTask& task, const WorkItem& item) const {
    if (item.last_range != batch_->slots[item.first_row] / kRangeTokens + 1) return;
    for (uint32_t head = item.kv_head; head < item.kv_head + item.kv_heads; ++head) {
      kernels_.store(task, item.blocks, item.first_row, head);
    }
  }

  void combine(const LayerTask& task, const WorkPlan& plan, Slice slice) const {
    const uint32_t group = task.query_heads / task.kv_heads;
    uint64_t turn = 0;
    for (const SplitItem& item : plan.split_items()) {
      const uint32_t queries = (item.last_row - item.first_row) * group;
      for (uint32_t query = 0; query < queries; ++query, ++turn) {
        if (turn % slice.count == slice.index) kernels_.combine(task, item, query, partials());
      }
    }
  }

  float* partials() const { return workspace_ + limits_.slices * scratch_floats_; }

  const KernelSet& kernels_;
  const ModelShape* model_ = nullptr;
  const KvStorage* storage_ = nullptr;
  AttentionLimits limits_;
  std::vector<WorkPlan> plans_;  // [groups]
  uint64_t scratch_floats_ = 0;  // of one slice, the most of all groups
  uint64_t partial_floats_ = 0;
  const BatchView* batch_ = nullptr;  // of the current step
  bool stores_first_ = true;          // rows read what other rows of the step store
  float* workspace_ = nullptr;
};

constexpr Fact kProvides[] = {
    {.key = "kv.dtype", .words = "f32 f16 bf16 i8 i4"},
    {.key = "kv.block_tokens", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.head_dim", .op = FactOp::at_most, .number = kMaxHeadDim, .words = {}},
    {.key = "attn.group", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.mask.sliding", .words = "no yes"},
    {.key = "attn.mask.tree", .words = "no"},
    {.key = "device.space", .words = "host"},
    {.key = "numerics.rows", .words = "invariant"},
};

constexpr PluginDescriptor base_descriptor() {
  PluginDescriptor base;
  base.id = "cpu";
  base.version = "0.1.0";
  base.summary =
      "attends to paged or contiguous caches in host memory, floating point or quantised";
  base.license = "Apache-2.0";
  base.score = [](const HostFacts&) noexcept -> uint32_t { return 10; };
  return base;
}
constexpr PluginDescriptor kCpu = sdk::with_facts(
    sdk::descriptor<AttentionKernel, CpuAttention, sdk::NoOptions>(base_descriptor()), kProvides);

}  // namespace
}  // namespace tenon::attention_cpu

TENON_PLUGIN_LIBRARY(&tenon::attention_cpu::kCpu)
