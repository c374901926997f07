#include "core/exec/ranks/model_cut.h"

#include <algorithm>
#include <utility>

#include "core/base/digest/sha256.h"
#include "core/model/formats/quant_format.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

// What a rank has of a layer's heads: a range of query heads, and of the KV heads that they read.
struct Heads {
  uint32_t first = 0, count = 0;
  uint32_t kv_first = 0, kv_count = 0;
};

// Whole KV heads with their queries, where there are enough of them; else the queries of one KV
// head are shared out among ranks that all keep it. A rank without queries has a count of 0.
Heads heads_of(const LayerPlan& layer, uint32_t rank, uint32_t ranks) {
  const uint64_t heads = layer.attention.heads;
  // The one row of latent attention is everybody's.
  const uint64_t kv_heads = layer.latent ? 1 : layer.attention.kv_heads;
  const uint64_t group = heads / kv_heads;
  const auto number = [](uint64_t value) { return static_cast<uint32_t>(value); };
  if (kv_heads >= ranks) {
    const uint64_t first = kv_heads * rank / ranks, last = kv_heads * (rank + 1) / ranks;
    return {number(first * group), number((last - first) * group), number(first),
            number(last - first)};
  }
  const uint64_t kv_head = kv_heads * rank / ranks;
  // Ranks whose KV head this is, and which of them this one is.
  const uint64_t first_rank = (kv_head * ranks + kv_heads - 1) / kv_heads;
  const uint64_t last_rank = ((kv_head + 1) * ranks + kv_heads - 1) / kv_heads;
  const uint64_t sharing = last_rank - first_rank, place = rank - first_rank;
  const uint64_t first = group * place / sharing, last = group * (place + 1) / sharing;
  return {number(kv_head * group + first), number(last - first), number(kv_head), 1};
}

// Rows [first, first + count) of heads that are `width` rows each.
struct RowRange {
  uint32_t first = 0, count = 0;
};

struct LayerRanges {
  RowRange q, k, v, gate;
};

LayerRanges ranges_of(const LayerPlan& layer, const Heads& heads) {
  const SelfAttentionPlan& attention = layer.attention;
  const uint32_t q = layer.latent ? layer.latent.q_dim() : attention.head_dim;
  const uint32_t gate = attention.heads == 0 ? 0 : attention.gate_width() / attention.heads;
  return {{heads.first * q, heads.count * q},
          {heads.kv_first * attention.head_dim, heads.kv_count * attention.head_dim},
          {heads.kv_first * attention.v_dim(), heads.kv_count * attention.v_dim()},
          {heads.first * gate, heads.count * gate}};
}

void cut_rows(Weight& weight, RowRange range, RowOrders& orders) {
  if (weight.n_out > 0) weight = rows_of(weight, range.first, range.count, orders);
}

void cut_vector(std::vector<float>& values, RowRange range) {
  if (values.empty()) return;
  values =
      std::vector<float>(values.begin() + range.first, values.begin() + range.first + range.count);
}

template <typename T>
void keep_range(std::vector<T>& values, uint32_t first, uint32_t count) {
  if (values.empty()) return;
  std::vector<T> kept(std::make_move_iterator(values.begin() + first),
                      std::make_move_iterator(values.begin() + first + count));
  values = std::move(kept);
}

// Why a layer's heads cannot be cut; empty: they can.
std::string reason_for_whole(const Model& model, size_t index, uint32_t ranks) {
  const LayerPlan& layer = model.plan.layers[index];
  const LayerWeights& weights = model.layers[index];
  const SelfAttentionPlan& attention = layer.attention;
  if (!layer.attends()) return "it does not attend";
  if (layer.shared) return "its attention is a block that layers share";
  if (attention.qk_norm && attention.qk_norm_extent == QkNormExtent::whole) {
    return "its norm of q and k spans all heads";
  }
  if (attention.learned_mask) return "its learned masks follow from V of all heads";
  if (attention.attended_norm) return "its norm of what is attended spans all heads";
  if (attention.alibi_max_bias > 0.0f) return "its biases by distance follow from all heads";
  if (attention.kv_heads == 0 || attention.heads % attention.kv_heads != 0) {
    return "its heads do not divide among its KV heads";
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Heads heads = heads_of(layer, rank, ranks);
    if (heads.count == 0) return "it has too few heads for every rank to have one";
    const LayerRanges ranges = ranges_of(layer, heads);
    for (const auto& [weight, range] :
         {std::pair(&weights.q, ranges.q), std::pair(&weights.k, ranges.k),
          std::pair(&weights.v, ranges.v), std::pair(&weights.output_gate, ranges.gate)}) {
      if (weight->n_out > 0 && !are_together(*weight, range.first, range.count)) {
        return "the rows of " + weight->name + " are stored across heads";
      }
    }
  }
  return {};
}

bool are_units(const ColumnStarts& starts, uint32_t unit) {
  return unit > 0 && std::ranges::all_of(starts, [unit](uint32_t at) { return at % unit == 0; });
}

// Whether parts of a layer's products can be added to the stream one after the other.
bool may_add(const Model& model, const LayerPlan& layer) {
  return model.plan.streams().count <= 1 && !layer.recurrent;
}

bool can_add_attention(const Model& model, size_t index, const ColumnStarts& attended) {
  const Weight& output = model.layers[index].output;
  return may_add(model, model.plan.layers[index]) && !attended.empty() && output.n_out > 0 &&
         output.k_in == attended.back() && are_units(attended, unit_of_k(output));
}

// Who has which inner columns of a layer's MLP; empty: it is not cut so.
ColumnStarts cut_mlp(const Model& model, size_t index, uint32_t ranks) {
  constexpr uint32_t kColumns = 16;  // a cache line of floats
  const LayerPlan& layer = model.plan.layers[index];
  const LayerWeights& weights = model.layers[index];
  const MlpPlan& mlp = layer.mlp;
  const uint32_t unit = unit_of_k(weights.down);
  const bool is_plain = layer.has_dense_mlp() && !layer.experts && !mlp.cuts_gate &&
                        !mlp.inner_norm && weights.down.n_out > 0;
  if (!is_plain || unit == 0 || !may_add(model, layer)) return {};
  ColumnStarts starts = cut_columns(mlp.width, std::max(unit, kColumns), ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint32_t count = starts[rank + 1] - starts[rank];
    if (count == 0 || !are_together(weights.up, starts[rank], count)) return {};
    if (mlp.gated && !are_together(weights.gate, starts[rank], count)) return {};
  }
  return are_units(starts, unit) ? starts : ColumnStarts();
}

void cut_sums(Model& model, size_t index, const HeadsCut& cut, uint32_t rank, RowOrders& orders) {
  LayerWeights& weights = model.layers[index];
  if (cut.adds_attention) {
    weights.output =
        k_of(weights.output, cut.attended[rank], cut.attended[rank + 1] - cut.attended[rank]);
  }
  if (!cut.adds_mlp()) return;
  const RowRange inner{cut.mlp[rank], cut.mlp[rank + 1] - cut.mlp[rank]};
  cut_rows(weights.up, inner, orders);
  cut_rows(weights.gate, inner, orders);
  cut_vector(weights.up_bias, inner);
  cut_vector(weights.gate_bias, inner);
  weights.down = k_of(weights.down, inner.first, inner.count);
  model.plan.layers[index].mlp.width = inner.count;
}

HeadsCut whole_since(const char* reason) {
  HeadsCut cut;
  cut.whole_because = reason;
  return cut;
}

void cut_layer(Model& model, size_t index, const Heads& heads, RowOrders& orders) {
  LayerPlan& layer = model.plan.layers[index];
  LayerWeights& weights = model.layers[index];
  SelfAttentionPlan& attention = layer.attention;
  const LayerRanges ranges = ranges_of(layer, heads);
  cut_rows(weights.q, ranges.q, orders);
  cut_rows(weights.output_gate, ranges.gate, orders);
  cut_vector(weights.q_bias, ranges.q);
  cut_vector(weights.output_gate_bias, ranges.gate);
  const bool own_head = attention.qk_norm && attention.qk_norm_extent == QkNormExtent::own_head;
  if (own_head) {
    for (auto* of_q : {&weights.q_norm, &weights.q_norm_bias}) cut_vector(*of_q, ranges.q);
  }
  if (attention.sinks && index < model.plan.sinks.size()) {
    keep_range(model.plan.sinks[index], heads.first, heads.count);
  }
  if (layer.latent) {
    keep_range(weights.k_absorb, heads.first, heads.count);
    keep_range(weights.v_expand, heads.first, heads.count);
  } else {
    cut_rows(weights.k, ranges.k, orders);
    cut_rows(weights.v, ranges.v, orders);
    cut_vector(weights.k_bias, ranges.k);
    cut_vector(weights.v_bias, ranges.v);
    if (own_head) {
      for (auto* of_k : {&weights.k_norm, &weights.k_norm_bias}) cut_vector(*of_k, ranges.k);
    }
    attention.kv_heads = heads.kv_count;
  }
  attention.heads = heads.count;
}

ColumnStarts attended_starts(const LayerPlan& layer, uint32_t ranks) {
  const uint32_t width = layer.attended_width() / layer.attention.heads;
  ColumnStarts starts;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    starts.push_back(heads_of(layer, rank, ranks).first * width);
  }
  starts.push_back(layer.attended_width());
  return starts;
}

}  // namespace

// Its config, its size, and some of its numbers, of each matrix a few in the middle: all of them
// would take as long as loading.
std::string fingerprint_of(const Model& model) {
  constexpr size_t kLookedAtBytes = 64 << 10, kOfEachBytes = 256;
  std::string text = model.config_json + std::to_string(model.weight_bytes());
  const auto add = [&](const void* from, size_t bytes) {
    text.append(static_cast<const char*>(from), std::min(bytes, kLookedAtBytes));
  };
  add(model.final_norm.data(), model.final_norm.size() * sizeof(float));
  for (const Weight* weight : {&model.embedding, &model.head}) {
    if (weight->parts.empty() || weight->parts.front().stride[1] != 1) continue;
    const std::span<const std::byte> bytes = bytes_of(weight->parts.front());
    add(bytes.data(), bytes.size());
  }
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) {
      if (weight->parts.empty() || weight->parts.front().stride[1] != 1) continue;
      const std::span<const std::byte> bytes = bytes_of(weight->parts.front());
      const size_t middle = bytes.size() / 2;
      add(bytes.data() + middle, std::min(bytes.size() - middle, kOfEachBytes));
    }
  }
  return sha256_hex(text).substr(0, 16);
}

bool ModelCut::any_by_heads() const {
  return std::ranges::any_of(layers, [](const HeadsCut& cut) { return !cut.attended.empty(); });
}

bool ModelCut::adds() const {
  return std::ranges::any_of(
      layers, [](const HeadsCut& cut) { return cut.adds_attention || cut.adds_mlp(); });
}

bool ModelCut::shares_experts() const {
  return std::ranges::any_of(layers, [](const HeadsCut& cut) { return !cut.experts.empty(); });
}

ModelCut cut_model(Model& model, const CutWish& wish) {
  const auto& [rank, ranks, whole, reduce, experts] = wish;
  ModelCut cut;
  cut.rank = rank;
  cut.ranks = ranks;
  if (ranks <= 1) return cut;
  cut.fingerprint = fingerprint_of(model);
  cut.layers.resize(model.layers.size());
  for (size_t index = 0; index < model.layers.size(); ++index) {
    HeadsCut& made = cut.layers[index];
    made.whole_because = whole.empty() ? reason_for_whole(model, index, ranks) : whole;
    // Who reads another layer's K and V has the same heads as that layer, or all of them.
    const int32_t from = model.plan.layers[index].attention.kv_from_layer;
    if (from >= 0 && cut.layers[static_cast<size_t>(from)].attended.empty()) {
      made.whole_because = "the layer whose K and V it reads is whole";
    }
    if (!made.whole_because.empty()) continue;
    made.attended = attended_starts(model.plan.layers[index], ranks);
  }
  // A layer that was cut cannot serve one that is whole.
  for (size_t index = model.layers.size(); index-- > 0;) {
    const int32_t from = model.plan.layers[index].attention.kv_from_layer;
    if (from < 0 || !cut.layers[index].attended.empty()) continue;
    cut.layers[static_cast<size_t>(from)] = whole_since("a layer that reads its K and V is whole");
  }
  for (size_t index = 0; index < model.layers.size(); ++index) {
    const int32_t from = model.plan.layers[index].attention.kv_from_layer;
    if (from >= 0 && cut.layers[static_cast<size_t>(from)].attended.empty()) {
      cut.layers[index] = whole_since("the layer whose K and V it reads is whole");
    }
    HeadsCut& made = cut.layers[index];
    if (reduce && whole.empty()) {
      made.adds_attention = can_add_attention(model, index, made.attended);
      made.mlp = cut_mlp(model, index, ranks);
    }
    if (cut.by_heads(static_cast<uint32_t>(index))) {
      cut_layer(model, index, heads_of(model.plan.layers[index], rank, ranks), cut.orders);
    }
    cut_sums(model, index, made, rank, cut.orders);
    // Results of experts that do nothing are nobody's, so their layers have columns of all.
    const ExpertsPlan& plan = model.plan.layers[index].experts;
    const bool can_share = plan.idle == 0 && plan.count >= ranks;
    if (experts && can_share) made.experts = cut_columns(plan.count, 1, ranks);
  }
  return cut;
}

bool are_together(const Weight& weight, uint32_t first, uint32_t count) {
  if (weight.row_order.empty()) return true;
  return std::ranges::all_of(weight.row_order.subspan(first, count),
                             [&](uint32_t row) { return row >= first && row < first + count; });
}

Weight rows_of(const Weight& weight, uint32_t first, uint32_t count, RowOrders& orders) {
  Weight made = weight;
  made.n_out = count;
  if (!weight.row_order.empty()) {
    std::vector<uint32_t>& order = orders.emplace_back();
    for (const uint32_t row : weight.row_order.subspan(first, count)) order.push_back(row - first);
    made.row_order = order;
  }
  TensorView& part = made.parts.front();
  part.shape[0] = count;
  part.data = static_cast<const std::byte*>(part.data) +
              uint64_t{first} * part.stride[0] * dtype_bits(part.dtype) / 8;
  return made;
}

// Blocks lie along K. Orders of columns and transposed matrices are not for cutting.
uint32_t unit_of_k(const Weight& weight) {
  if (weight.parts.size() != 1 || weight.parts.front().stride[1] != 1) return 0;
  const QuantFormat* format = find_quant_format(weight.format);
  return format == nullptr ? 1 : format->elements;
}

Weight k_of(const Weight& weight, uint32_t first, uint32_t count) {
  Weight made = weight;
  made.k_in = count;
  // It is another matrix, which begins where the whole may begin.
  made.name += ", K " + std::to_string(first) + " to " + std::to_string(first + count);
  TensorView& part = made.parts.front();
  const QuantFormat* format = find_quant_format(weight.format);
  const uint64_t before =
      format == nullptr ? first * uint64_t{dtype_bits(part.dtype)} / 8 : format->row_bytes(first);
  part.shape[1] = format == nullptr ? count : format->row_bytes(count);
  part.data = static_cast<const std::byte*>(part.data) + before;
  return made;
}

}  // namespace tenon
