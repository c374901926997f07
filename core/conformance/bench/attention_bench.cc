#include "core/conformance/bench/attention_bench.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/base/half.h"
#include "core/conformance/worlds/random.h"
#include "core/conformance/worlds/slices.h"

namespace tenon {
namespace {

std::vector<float> values_at(uint64_t seed, uint64_t position, uint32_t count) {
  CaseRandom random(seed * 100003 + position);
  std::vector<float> values(count);
  for (float& value : values) value = random.value();
  return values;
}

float as_bf16(float value) {
  return float_from_bf16(bf16_from_float(value));
}
// The largest bf16 that is not above it.
float bf16_below(float value) {
  const uint16_t near = bf16_from_float(value);
  if (float_from_bf16(near) <= value) return float_from_bf16(near);
  return float_from_bf16(static_cast<uint16_t>(value > 0 ? near - 1 : near + 1));
}
float quantised(float value, float scale, float lowest, float highest) {
  return scale == 0 ? 0 : std::clamp(std::nearbyint(value / scale), lowest, highest) * scale;
}

// A row of one head, as a cache of that type keeps it.
void keep_as(DType dtype, std::span<float> row) {
  const auto [lowest, highest] = std::minmax_element(row.begin(), row.end());
  if (dtype == DType::bf16) {
    for (float& value : row) value = as_bf16(value);
  } else if (dtype == DType::f16) {
    for (float& value : row) value = float_from_f16(f16_from_float(value));
  } else if (dtype == DType::i8) {
    const float scale = as_bf16(std::max(-*lowest, *highest) / 127);
    for (float& value : row) value = quantised(value, scale, -127, 127);
  } else if (dtype == DType::i4) {
    const float least = bf16_below(*lowest);
    const float scale = as_bf16((*highest - least) / 15);
    for (float& value : row) value = least + quantised(value - least, scale, 0, 15);
  }
}

// All KV heads of a position, so.
std::vector<float> heads_as(DType dtype, std::vector<float> heads) {
  for (uint32_t g = 0; g < AttentionText::kKvHeads; ++g) {
    keep_as(dtype, std::span(heads).subspan(g * AttentionText::kDim, AttentionText::kDim));
  }
  return heads;
}

}  // namespace

std::vector<float> AttentionText::q(uint32_t p) const {
  return values_at(seed * 3, p, kHeads * kDim);
}
std::vector<float> AttentionText::k(uint32_t p) const {
  return values_at(seed * 3 + 1, p, kKvHeads * kDim);
}
std::vector<float> AttentionText::v(uint32_t p) const {
  return values_at(seed * 3 + 2, p, kKvHeads * kDim);
}

Result<std::unique_ptr<AttentionBench>> AttentionBench::make(Subject& subject,
                                                             const AttentionLayout& layout) {
  auto made = std::make_unique<AttentionBench>(layout);
  TENON_ASSIGN_OR_RETURN(made->plugin_, subject.make<AttentionKernel>());
  made->kernel_ =
      std::make_unique<CheckedAttention>(*made->plugin_, subject.name(), subject.checks());
  AttentionBinding& binding = made->binding_;
  binding.model = &made->model_;
  binding.groups = {&made->group_id_, 1};
  binding.storage = {&made->storage_, 1};
  binding.max_rows = kMostRows;
  binding.max_sequences = kMostSequences;
  binding.slices = layout.slices;
  TENON_RETURN_IF_ERROR(made->kernel_->bind(binding));
  return made;
}

AttentionBench::AttentionBench(const AttentionLayout& layout)
    : layout_(layout), row_bytes_(kv_row_bytes(layout.dtype, AttentionText::kDim)) {
  blocks_each_ = (kContext + layout.block_tokens - 1) / layout.block_tokens;
  const uint64_t head_bytes = layout.block_tokens * row_bytes_;
  const uint64_t block_bytes = AttentionText::kKvHeads * head_bytes;
  const uint64_t plane_bytes = kMostSequences * blocks_each_ * block_bytes;
  // Every byte is set to what reads as NaN: slots that nobody wrote may hold anything.
  for (auto& plane : planes_) plane.emplace(plane_bytes);
  const KvPlane plane{nullptr, block_bytes, head_bytes, row_bytes_};
  for (size_t i = 0; i < 2; ++i) {
    layer_storage_[i].k = layer_storage_[i].v = plane;
    layer_storage_[i].k.base = planes_[2 * i]->as<std::byte>();
    layer_storage_[i].v.base = planes_[2 * i + 1]->as<std::byte>();
  }
  storage_ = {layout.dtype, layout.block_tokens, layer_storage_};
  group_.layers = 2;
  group_.kv_heads = AttentionText::kKvHeads;
  group_.k_dim = group_.v_dim = AttentionText::kDim;
  group_.window_tokens = layout.window_tokens;
  for (LayerShape& layer : layers_) {
    layer.query_heads = AttentionText::kHeads;
    layer.scale = 0.25f;
    layer.soft_cap = layout.soft_cap;
    if (layout.has_sinks) layer.sinks = AttentionLayout::kSinks;
    if (layout.has_alibi) layer.alibi_slopes = AttentionLayout::kSlopes;
  }
  layers_[1].index_in_group = 1;
  layers_[2].shares_kv_with = 0;
  model_.layer_count = kLayers;
  model_.group_count = 1;
  model_.hidden = AttentionText::kHeads * AttentionText::kDim;
  model_.vocabulary = 10;
  model_.context_tokens = kContext;
  model_.groups = &group_;
  model_.layers = layers_;
  // Blocks of the sequences lie in no order.
  for (uint32_t s = 0; s < kMostSequences; ++s) {
    std::vector<BlockId>& blocks = blocks_.emplace_back();
    for (uint32_t b = 0; b < blocks_each_; ++b) {
      blocks.push_back(static_cast<BlockId>((b * 5 + 3) % blocks_each_ * kMostSequences + s));
    }
  }
}

Result<std::vector<float>> AttentionBench::step(const std::vector<AttentionPart>& parts,
                                                LayerId layer, std::vector<uint32_t> own) {
  std::vector<BatchSequence> sequences;
  std::vector<uint32_t> slots, positions, kv_tokens, sees_to;
  const bool asks_all = own.empty();
  std::vector<KvTableView> tables;
  std::vector<TokenId> tokens;
  std::vector<float> q, k, v;
  for (const AttentionPart& part : parts) {
    if (asks_all) own.push_back(static_cast<uint32_t>(sequences.size()));
    const auto last_row = static_cast<uint32_t>(slots.size()) + part.rows - 1;
    sequences.push_back({part.sequence, static_cast<uint32_t>(slots.size()), part.rows, 0, 0});
    tables.push_back({blocks_[part.sequence], {}, 0});
    kv_tokens.push_back(part.first + part.rows);
    for (uint32_t p = part.first; p < part.first + part.rows; ++p) {
      slots.push_back(p);
      positions.push_back(p + layout_.moved_by);
      if (layout_.sees_ahead) sees_to.push_back(last_row);
      tokens.push_back(1);
      const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(q, part.text.q(p)), append(k, part.text.k(p)), append(v, part.text.v(p));
    }
  }
  const BatchGroup group{slots, kv_tokens, tables};
  BatchView batch;
  batch.step_id = ++step_;
  batch.rows = batch.padded_rows = static_cast<uint32_t>(slots.size());
  batch.padded_sequences = static_cast<uint32_t>(parts.size());
  batch.tokens = tokens;
  batch.positions = positions;
  batch.sees_to = sees_to;
  batch.sequences = sequences;
  batch.groups = {&group, 1};
  return run(batch, layer, own, q, k, v);
}

Result<std::vector<float>> AttentionBench::run(const BatchView& batch, LayerId layer,
                                               std::span<const uint32_t> own,
                                               const std::vector<float>& q,
                                               const std::vector<float>& k,
                                               const std::vector<float>& v) {
  const GuardedMemory plan(kernel_->plan_bytes(0)), workspace(kernel_->workspace_bytes(0));
  const GuardedMemory queries = GuardedMemory::copy_of(std::span<const float>(q));
  const GuardedMemory keys = GuardedMemory::copy_of(std::span<const float>(k));
  const GuardedMemory rows = GuardedMemory::copy_of(std::span<const float>(v));
  const GuardedMemory out(q.size() * sizeof(float));
  KernelPlanOut planned;
  TENON_RETURN_IF_ERROR(kernel_->plan({0, &batch, own, plan.get()}, planned));
  const GuardedMemory further(kernel_->plan_bytes(0));
  if (plans_further_) {
    KernelPlanOut unused;
    TENON_RETURN_IF_ERROR(kernel_->plan({0, &batch, own.first(1), further.get()}, unused));
  }
  AttentionCall call;
  call.layer = layer;
  call.q = queries.get();
  if (layers_[layer].shares_kv_with < 0) {
    call.k = keys.get();
    call.v = rows.get();
  }
  call.out = out.get();
  call.plan = plan.get();
  call.workspace = workspace.get();
  call.padded_rows = batch.padded_rows;
  call.padded_sequences = batch.padded_sequences;
  if (watch_ != nullptr) watch_->begin();
  for (uint32_t phase = 0; phase < planned.phases; ++phase) {
    TENON_RETURN_IF_ERROR(run_phase(call, phase));
  }
  if (watch_ != nullptr) watch_->end();
  bool sound = plan.intact() && workspace.intact() && out.intact();
  for (const auto& plane : planes_) sound = sound && plane->intact();
  if (!sound) return internal("plan or run wrote beside the memory that it was given");
  return std::vector<float>(out.as<float>(), out.as<float>() + q.size());
}

Status AttentionBench::run_phase(const AttentionCall& call, uint32_t phase) {
  const uint32_t slices = layout_.slices;
  if (!layout_.on_threads) {
    for (uint32_t slice = slices; slice-- > 0;) {
      TENON_RETURN_IF_ERROR(kernel_->run(call, phase, {slice, slices}));
    }
    return {};
  }
  return run_at_once(slices, [&](uint32_t slice) {
    return kernel_->run(call, phase, {slice, slices});
  });
}

std::vector<double> wanted_row(const AttentionText& text, uint32_t p, uint32_t rows,
                               const AttentionLayout& layout) {
  std::vector<double> out(AttentionText::kHeads * AttentionText::kDim, 0.0);
  const std::vector<float> q = text.q(p);
  const uint32_t first = first_visible(p, layout.window_tokens);
  const uint32_t last = layout.sees_ahead ? rows - 1 : p;
  std::vector<std::vector<float>> keys, values;
  for (uint32_t at = first; at <= last; ++at) {
    keys.push_back(heads_as(layout.dtype, text.k(at)));
    values.push_back(heads_as(layout.dtype, text.v(at)));
  }
  for (uint32_t h = 0; h < AttentionText::kHeads; ++h) {
    const uint32_t g = h / (AttentionText::kHeads / AttentionText::kKvHeads);
    std::vector<double> shares;
    double total = layout.has_sinks ? std::exp(double{AttentionLayout::kSinks[h]}) : 0.0;
    for (uint32_t at = first; at <= last; ++at) {
      const std::vector<float>& k = keys[at - first];
      double score = 0;
      for (uint32_t i = 0; i < AttentionText::kDim; ++i) {
        score += double{q[h * AttentionText::kDim + i]} * k[g * AttentionText::kDim + i];
      }
      score *= 0.25;
      if (layout.soft_cap > 0) score = layout.soft_cap * std::tanh(score / layout.soft_cap);
      if (layout.has_alibi)
        score += AttentionLayout::kSlopes[h] * (static_cast<double>(at) - static_cast<double>(p));
      shares.push_back(std::exp(score));
      total += shares.back();
    }
    for (uint32_t n = 0; n <= last - first; ++n) {
      const std::vector<float>& v = values[n];
      for (uint32_t i = 0; i < AttentionText::kDim; ++i) {
        out[h * AttentionText::kDim + i] += shares[n] / total * v[g * AttentionText::kDim + i];
      }
    }
  }
  return out;
}

}  // namespace tenon
