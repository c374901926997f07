// Attention on host memory: paged and contiguous caches of f32, f16, bf16, i8 and i4, any block
// size, grouped query heads, latent rows, windows that slide or are chunks, soft caps, ALiBi
// slopes, rows that form trees.
//
// Three phases at most: rows of K and V into the cache; attention, item by item; and the merging of
// items that were cut into ranges of positions. A batch of one row needs no phase to store: nobody
// but the item that attends to the row's position reads what is stored there. (Rows of several
// sequences may read each other's in shared blocks.)
#include <tenon/attention.h>
#include <tenon/extensions/attention_chunks.h>
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
// That are scored together: enough that reading K serves many, few enough to be shared out.
constexpr uint32_t kScoredRows = 24;

enum class Products : uint8_t { f32, bf16, int8 };
struct Options {
  Products products = Products::f32;
};
constexpr std::string_view kProducts[] = {"f32", "bf16", "int8"};
constexpr OptionSpec kOptions[] = {
    sdk::choice<&Options::products>(
        "products", 0, kProducts,
        "f32: queries and weights as they are; bf16: rounded to bf16 and multiplied in pairs "
        "with a cache of bf16, by AVX-512 BF16; int8: rounded to bytes and multiplied with a cache "
        "of i8 or i4, by AVX-512 VNNI: other bits, and faster where arithmetic is the limit"),
};
TENON_CHECK_OPTIONS(kOptions);

// What is asked for, where the processor has it; `bind` refuses where it has not.
const KernelSet& choose_kernels(const HostFacts& host, Products products) {
  if (products == Products::int8) {
    return sdk::best_kernels<KernelSet>(host, {{kCpuPortable, &kPortableKernels},
                                               {kCpuAvx512Vnni, TENON_X86(&kAvx512VnniKernels)}});
  }
  if (products == Products::bf16) {
    return sdk::best_kernels<KernelSet>(host, {{kCpuPortable, &kPortableKernels},
                                               {kCpuAvx512Bf16, TENON_X86(&kAvx512Bf16Kernels)}});
  }
  return sdk::best_kernels<KernelSet>(host, {{kCpuPortable, &kPortableKernels},
                                             {kCpuAvx2, TENON_X86(&kAvx2Kernels)},
                                             {kCpuAvx512, TENON_X86(&kAvx512Kernels)},
                                             {kCpuNeon, TENON_ARM(&kNeonKernels)}});
}

Status refuse(const std::string& message) {
  return Status::error(StatusCode::unsupported, message);
}
Status broken(const std::string& message) {
  return Status::error(StatusCode::internal, message);
}

Status check_group(const KvGroup& group) {
  if (group.kind == KvKind::recurrent) {
    return refuse(
        "a KV group is recurrent; \"cpu\" attends to K and V; choose a state plugin for "
        "that model");
  }
  if (group.kv_heads == 0) return refuse("a KV group has no heads");
  if (group.v_inside_k()) {
    const bool sound = group.v_dim > 0 && group.v_dim <= group.k_dim;
    if (sound && group.k_dim <= kMaxLatentDim) return Status();
    return refuse("latent rows have " + std::to_string(group.k_dim) + " elements, " +
                  std::to_string(group.v_dim) + " of them V; \"cpu\" takes 1 to " +
                  std::to_string(kMaxLatentDim) + ", V at most all of them");
  }
  if (group.k_dim == 0 || group.v_dim == 0 || group.k_dim > kMaxWideHeadDim ||
      group.v_dim > kMaxWideHeadDim) {
    return refuse("heads have " + std::to_string(group.k_dim) + " and " +
                  std::to_string(group.v_dim) + " elements (K, V); \"cpu\" takes 1 to " +
                  std::to_string(kMaxWideHeadDim));
  }
  return Status();
}

Status check_storage(const KvGroupStorage& storage, Products products) {
  if (storage.dtype > DType::i4) {
    return refuse("kv.dtype is " + std::string(dtype_name(storage.dtype)) +
                  "; \"cpu\" reads f32, f16, bf16, i8 and i4");
  }
  if (products == Products::bf16 && storage.dtype != DType::bf16) {
    return refuse("kv.dtype is " + std::string(dtype_name(storage.dtype)) +
                  "; attention.options.products = \"bf16\" multiplies what is stored as bf16");
  }
  if (products == Products::int8 && !kv_is_quantised(storage.dtype)) {
    return refuse("kv.dtype is " + std::string(dtype_name(storage.dtype)) +
                  "; attention.options.products = \"int8\" multiplies what is stored as i8 or i4");
  }
  if (storage.block_tokens == 0) return broken("a KV group has no block size");
  return Status();
}

Status check_layer(LayerId id, const LayerShape& layer, const KvGroup& group,
                   const KvGroupStorage& storage) {
  const std::string name = "layer " + std::to_string(id);
  if (layer.query_heads == 0 || layer.query_heads % group.kv_heads != 0) {
    return refuse(name + " has " + std::to_string(layer.query_heads) +
                  " query heads, not a multiple of its " + std::to_string(group.kv_heads) +
                  " KV heads");
  }
  if (layer.index_in_group >= storage.layers.size()) {
    return broken(name + " has no storage in its KV group");
  }
  return Status();
}

// The data that a step over one KV group needs in addition to its plan.
struct GroupWork {
  bool bound = false;
  PlanLimits limits;
  uint64_t scratch_floats = 0;  // of one slice

  uint64_t workspace_floats(const KvGroup& group) const {
    return limits.slices * scratch_floats + limits.partial_queries * partial_floats(group.v_dim);
  }
  float* partials(void* workspace) const {
    return static_cast<float*>(workspace) + limits.slices * scratch_floats;
  }
};

class CpuAttention {
 public:
  CpuAttention(const HostServices& host, const PipelineFacts&, const Options& options)
      : kernels_(choose_kernels(*host.facts, options.products)), products_(options.products) {
    scores_.self = this;
    scores_.add = [](void* self, const AttentionCall& call, std::span<uint64_t* const> sums,
                     Slice slice) noexcept {
      return static_cast<const CpuAttention*>(self)->score(call, sums, slice);
    };
    chunks_.self = this;
    chunks_.set = [](void* self, std::span<const GroupId> groups) noexcept {
      static_cast<CpuAttention*>(self)->chunked_.assign(groups.begin(), groups.end());
    };
  }
  CpuAttention(const CpuAttention&) = delete;
  CpuAttention& operator=(const CpuAttention&) = delete;

  Status bind(const AttentionBinding& binding) {
    const ModelShape& model = *binding.model;
    if (model.context_tokens > kMaxContextTokens || binding.slices == 0) {
      return refuse("the context of " + std::to_string(model.context_tokens) +
                    " tokens is beyond 2^30, or there is no slice");
    }
    if (binding.dtype != DType::f32) {
      return refuse("activations are " + std::string(dtype_name(binding.dtype)) +
                    "; \"cpu\" takes f32");
    }
    if (products_ != Products::f32 && &kernels_ == &kPortableKernels) {
      const bool pairs = products_ == Products::bf16;
      return refuse("attention.options.products is \"" + std::string(pairs ? "bf16" : "int8") +
                    "\", which multiplies by " + (pairs ? "avx512_bf16" : "avx512_vnni") +
                    "; this processor, or what --isa leaves of it, has none");
    }
    binding_ = binding;
    groups_.assign(model.group_count, {});
    for (const GroupId group : binding.groups) {
      if (group >= model.group_count || group >= binding.storage.size()) {
        return broken("KV group " + std::to_string(group) + " is not one of the model's");
      }
      Status status = add_group(group);
      if (!status.ok()) return status;
    }
    return Status();
  }

  uint64_t plan_bytes(GroupId group) const {
    return attention_cpu::plan_bytes(groups_[group].limits);
  }
  uint64_t workspace_bytes(GroupId group) const {
    return groups_[group].workspace_floats(binding_.model->groups[group]) * sizeof(float);
  }

  Status plan(const AttentionPlan& call, KernelPlanOut& out) {
    Status status = check_batch(call);
    if (!status.ok()) return status;
    const StepPlan& made = make_plan(groups_[call.group].limits, call);
    out.phases = 1 + (made.stores_first ? 1 : 0) + (made.split_count > 0 ? 1 : 0);
    out.plan_bytes = plan_bytes(call.group);
    return Status();
  }

  Status run(const AttentionCall& call, uint32_t phase, Slice slice) {
    const Step step{*static_cast<const StepPlan*>(call.plan),
                    groups_[binding_.model->layers[call.layer].group], call.workspace};
    const LayerTask task = layer_task(call, step.plan);
    const uint32_t attending = step.plan.stores_first ? 1 : 0;
    if (phase < attending && call.k != nullptr) store(task, step, slice);
    if (phase == attending) attend(task, step, slice);
    if (phase > attending) combine(task, step, slice);
    return Status();
  }

  std::string_view numerics() const { return kernels_.name; }

  const void* extension(std::string_view id) const {
    if (id == kAttentionChunks) return &chunks_;
    return id == kAttentionScores ? &scores_ : nullptr;
  }

 private:
  struct Step {
    const StepPlan& plan;
    const GroupWork& group;
    void* workspace;
  };

  Status add_group(GroupId id) {
    const KvGroup& group = binding_.model->groups[id];
    const KvGroupStorage& storage = binding_.storage[id];
    Status status = check_group(group);
    if (status.ok()) status = check_storage(storage, products_);
    if (!status.ok()) return status;
    PlanLimits limits{
        .slices = binding_.slices,
        .max_rows = binding_.max_rows,
        .max_sequences = binding_.max_sequences,
        .context_tokens = binding_.model->context_tokens,
        .kv_heads = group.kv_heads,
        .largest_group = 1,
        .window_tokens = group.window_tokens,
        .chunks = group.window_tokens > 0 && std::ranges::find(chunked_, id) != chunked_.end(),
        .latent = group.v_inside_k()};
    for (LayerId id_of = 0; id_of < binding_.model->layer_count; ++id_of) {
      const LayerShape& layer = binding_.model->layers[id_of];
      if (layer.group != id) continue;
      status = check_layer(id_of, layer, group, storage);
      if (!status.ok()) return status;
      limits.largest_group = std::max(limits.largest_group, layer.query_heads / group.kv_heads);
    }
    limits.partial_queries = useful_partials(limits);
    groups_[id] = {true, limits, scratch_floats(group.k_dim, group.v_dim, limits.latent)};
    return Status();
  }

  // What would make the kernel read or write out of range; the executor checks the rest.
  Status check_batch(const AttentionPlan& call) const {
    const BatchView& batch = *call.batch;
    if (call.group >= groups_.size() || !groups_[call.group].bound ||
        call.group >= batch.groups.size()) {
      return broken("KV group " + std::to_string(call.group) +
                    " is not one that the attention kernel was bound to");
    }
    if (batch.rows > binding_.max_rows || batch.sequences.size() > binding_.max_sequences ||
        batch.groups[call.group].slots.size() < batch.rows ||
        batch.groups[call.group].tables.size() < batch.sequences.size()) {
      return broken("the batch has " + std::to_string(batch.rows) + " rows and " +
                    std::to_string(batch.sequences.size()) +
                    " sequences, more than was agreed when the attention kernel was bound");
    }
    if (!batch.tree_parents.empty() && !batch.sees_to.empty()) {
      return refuse("rows form a tree and see rows behind them; \"cpu\" knows one of the two");
    }
    for (const uint32_t sequence : call.sequences) {
      if (sequence >= batch.sequences.size()) return broken("a sequence is not in the batch");
      Status status = check_sequence(batch, call.group, sequence);
      if (!status.ok()) return status;
    }
    return Status();
  }

  Status check_sequence(const BatchView& batch, GroupId group, uint32_t index) const {
    const BatchSequence& sequence = batch.sequences[index];
    const uint32_t first = sequence.first_row;
    if (uint64_t{first} + sequence.rows > batch.rows) {
      return broken("a sequence's rows are not in the batch");
    }
    const uint64_t tokens = batch.groups[group].tables[index].blocks.size() *
                            uint64_t{binding_.storage[group].block_tokens};
    for (uint32_t row = first; row < first + sequence.rows; ++row) {
      const uint32_t slot = batch.groups[group].slots[row];
      if (slot >= tokens) {
        return broken("row " + std::to_string(row) + " is stored at position " +
                      std::to_string(slot) + ", behind its sequence's " + std::to_string(tokens) +
                      " slots");
      }
      if (slot != batch.groups[group].slots[first] + (row - first)) {
        return broken("the slots of a sequence's rows do not rise by one");
      }
      Status status = check_row(batch, sequence, row);
      if (!status.ok()) return status;
    }
    return Status();
  }

  static Status check_row(const BatchView& batch, const BatchSequence& sequence, uint32_t row) {
    if (!batch.tree_parents.empty()) {
      const int64_t parent = batch.tree_parents[row];
      if (parent >= row || (parent >= 0 && parent < sequence.first_row)) {
        return broken("row " + std::to_string(row) + " follows row " + std::to_string(parent) +
                      ", which is no earlier one of its sequence");
      }
    }
    if (!batch.sees_to.empty() &&
        (batch.sees_to[row] < row || batch.sees_to[row] >= sequence.first_row + sequence.rows)) {
      return broken("row " + std::to_string(row) + " sees up to row " +
                    std::to_string(batch.sees_to[row]) + ", which is not itself or behind it");
    }
    return Status();
  }

  LayerTask layer_task(const AttentionCall& call, const StepPlan& plan) const {
    const LayerShape& layer = binding_.model->layers[call.layer];
    const KvGroup& group = binding_.model->groups[layer.group];
    const KvGroupStorage& storage = binding_.storage[layer.group];
    const std::span<const int32_t> parents = plan.batch->tree_parents;
    return {.dtype = storage.dtype,
            .k_plane = storage.layers[layer.index_in_group].k,
            .v_plane = storage.layers[layer.index_in_group].v,
            .latent = group.v_inside_k(),
            .block_tokens = storage.block_tokens,
            .kv_heads = group.kv_heads,
            .query_heads = layer.query_heads,
            .k_dim = group.k_dim,
            .v_dim = group.v_dim,
            .scale = layer.scale,
            .soft_cap = layer.soft_cap,
            .slopes = layer.alibi_slopes,
            .sinks = layer.sinks,
            .slots = plan.group->slots.data(),
            .seen = plan.seen,
            .tree_parents = parents.empty() ? nullptr : parents.data(),
            .q = static_cast<const float*>(call.q),
            .k = static_cast<const float*>(call.k),
            .v = static_cast<const float*>(call.v),
            .out = static_cast<float*>(call.out)};
  }

  // Slices share out rows x heads.
  void store(const LayerTask& task, const Step& step, Slice slice) const {
    const uint64_t units = uint64_t{step.plan.rows} * task.kv_heads;
    const uint64_t begin = units * slice.index / slice.count;
    const uint64_t end = units * (slice.index + 1) / slice.count;
    uint64_t before = 0;  // units of the sequences in front
    for (const uint32_t index : step.plan.sequences) {
      const BatchSequence& sequence = step.plan.batch->sequences[index];
      const uint64_t behind = before + uint64_t{sequence.rows} * task.kv_heads;
      const BlockId* blocks = step.plan.group->tables[index].blocks.data();
      for (uint64_t unit = std::max(begin, before); unit < std::min(end, behind); ++unit) {
        const auto of_sequence = static_cast<uint32_t>(unit - before);
        kernels_.store(task, blocks, sequence.first_row + of_sequence / task.kv_heads,
                       of_sequence % task.kv_heads);
      }
      before = behind;
    }
  }

  // Slices beyond those agreed upon have no scratch memory and no work.
  void attend(const LayerTask& task, const Step& step, Slice slice) const {
    const uint32_t shares = step.plan.slices;
    const uint32_t stride = std::min(slice.count, shares);
    if (slice.index >= stride) return;
    float* scratch = static_cast<float*>(step.workspace) + slice.index * step.group.scratch_floats;
    for (uint32_t share = slice.index; share < shares; share += stride) {
      for (const WorkItem& item : step.plan.share(share)) {
        if (!step.plan.stores_first && task.k != nullptr) store_own(task, item);
        kernels_.attend(task, item, scratch, step.group.partials(step.workspace));
      }
    }
  }

  // The K and V of an item's one row, by the one of its pieces that reads them.
  void store_own(const LayerTask& task, const WorkItem& item) const {
    if (item.last_range != task.slots[item.first_row] / kRangeTokens + 1) return;
    for (uint32_t head = item.kv_head; head < item.kv_head + item.kv_heads; ++head) {
      kernels_.store(task, item.blocks, item.first_row, head);
    }
  }

  void combine(const LayerTask& task, const Step& step, Slice slice) const {
    const uint32_t group = task.query_heads / task.kv_heads;
    uint64_t turn = 0;
    for (const SplitItem& item : step.plan.split_items()) {
      const uint32_t queries = (item.last_row - item.first_row) * group;
      for (uint32_t query = 0; query < queries; ++query, ++turn) {
        if (turn % slice.count != slice.index) continue;
        kernels_.combine(task, item, query, step.group.partials(step.workspace));
      }
    }
  }

  // Slices share out runs of rows x KV heads.
  Status score(const AttentionCall& call, std::span<uint64_t* const> sums, Slice slice) const {
    const Step step{*static_cast<const StepPlan*>(call.plan),
                    groups_[binding_.model->layers[call.layer].group], call.workspace};
    const BatchView& batch = *step.plan.batch;
    if (!batch.tree_parents.empty()) {
      return refuse("rows form a tree; \"cpu\" tells what weight entries got of chains alone");
    }
    const uint32_t shares = std::min(slice.count, step.plan.slices);
    if (slice.index >= shares) return Status();
    const LayerTask task = layer_task(call, step.plan);
    float* scratch = static_cast<float*>(step.workspace) + slice.index * step.group.scratch_floats;
    uint64_t turn = 0;
    for (const uint32_t index : step.plan.sequences) {
      const uint32_t first = batch.sequences[index].first_row;
      const uint32_t end = first + batch.sequences[index].rows;
      for (uint32_t row = first, behind = first; row < end; row = behind) {
        while (behind < end && behind - row < kScoredRows && sums[behind] == sums[row]) ++behind;
        if (sums[row] == nullptr) continue;
        for (uint32_t head = 0; head < task.kv_heads; ++head, ++turn) {
          if (turn % shares != slice.index) continue;
          kernels_.score(
              task, {step.plan.group->tables[index].blocks.data(), head, row, behind, sums[row]},
              scratch);
        }
      }
    }
    return Status();
  }

  const KernelSet& kernels_;
  const Products products_;
  AttentionScores scores_;
  AttentionChunks chunks_;
  std::vector<GroupId> chunked_;
  AttentionBinding binding_;
  std::vector<GroupWork> groups_;  // [group_count]
};

constexpr Fact kProvides[] = {
    {.key = "kv.dtype", .words = "f32 f16 bf16 i8 i4"},
    {.key = "kv.block_tokens", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.head_dim", .op = FactOp::at_most, .number = kMaxWideHeadDim, .words = {}},
    {.key = "attn.group", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.mask.sliding", .words = "no yes"},
    {.key = "attn.mask.tree", .words = "no yes"},
    {.key = "attn.mask.spans", .words = "no yes"},
    {.key = "attn.latent", .words = "no yes"},
    {.key = "attn.chosen", .words = "no yes"},
    {.key = "attn.soft_cap", .words = "no yes"},
    {.key = "attn.sinks", .words = "no yes"},
    {.key = "attn.alibi", .words = "no yes"},
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
    sdk::descriptor<AttentionKernel, CpuAttention, Options>(base_descriptor(), kOptions),
    kProvides);

}  // namespace
}  // namespace tenon::attention_cpu

TENON_PLUGIN_LIBRARY(&tenon::attention_cpu::kCpu)
