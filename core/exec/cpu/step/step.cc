#include "core/exec/cpu/step/step.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/parallel/shared_collective.h"

namespace tenon {
namespace {

// The widest of all layers' recurrences.
struct RecurrentWidths {
  std::array<uint64_t, kMostRecurrentInputs> inputs = {};
  uint64_t mixed = 0, low = 0, gate = 0, inner = 0;

  void add(const RecurrentPlan& recurrent, const LayerWeights& weights) {
    if (!recurrent) return;
    const RecurrenceKind& kind = recurrence_kind(recurrent.kind);
    size_t at = 0;
    for (const auto& products : {kind.inputs, kind.later_inputs}) {
      for (const RecurrentProduct& product : products) {
        const uint64_t width =
            product.zeros != nullptr ? product.zeros(recurrent) : product.width(weights);
        inputs[at] = std::max(inputs[at], width);
        ++at;
      }
    }
    inner = std::max<uint64_t>(inner, recurrent.inner());
    gate = std::max<uint64_t>(gate, weights.ssm_gate.n_out);
    low = std::max(low, uint64_t{weights.ssm_low.n_out} + weights.ssm_gate_low.n_out);
    if (!kind.later_inputs.empty()) mixed = std::max<uint64_t>(mixed, recurrent.channels());
  }
};

Result<HostMemory> activations(uint64_t bytes) {
  return HostMemory::allocate(bytes, HostMemory::Backing::lazy, "a buffer for activations");
}

}  // namespace

Status CpuBuffers::allocate(const Model& model, const Head* head, const PackedWeights& weights,
                            uint32_t max_rows, const ModelCut& cut) {
  const ModelPlan& plan = model.plan;
  const auto rows_of = [max_rows](uint64_t width) {
    return saturating_mul(saturating_mul(width, max_rows), sizeof(float));
  };
  uint64_t heads = 0, gated = 0, kv_heads = 0, inner_width = 0, turned = 0, low_width = 0,
           expanded_width = 0, beside_width = 0, by_all_width = 0, added_width = 0;
  RecurrentWidths wide;
  uint64_t scores_width = 0, routed_width = 0;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    wide.add(layer.recurrent, model.layers[i]);
    if (cut.by_heads(static_cast<uint32_t>(i))) {
      by_all_width = std::max<uint64_t>(by_all_width, cut.layers[i].attended.back());
    }
    heads = std::max<uint64_t>({heads, layer.attention.q_width(), layer.kernel_out_width()});
    gated = std::max<uint64_t>(gated, layer.attention.gate_width());
    kv_heads = std::max<uint64_t>(
        {kv_heads, layer.attention.kv_width(), layer.latent ? 0 : layer.attention.v_width()});
    const ExpertsPlan& experts = layer.experts;
    inner_width = std::max<uint64_t>(
        {inner_width, experts ? uint64_t{experts.chosen} * experts.width + experts.shared_width : 0,
         layer.has_dense_mlp() ? layer.mlp.width : 0, layer.input.width});
    if (experts.beside_norm || experts.aside || layer.low_residual || layer.shared) {
      beside_width = plan.hidden;
    }
    low_width = std::max<uint64_t>(low_width, layer.low_residual.rank);
    if (layer.attention.learned_mask) {
      const uint64_t all_heads = uint64_t{layer.attention.heads} + layer.attention.kv_heads;
      expanded_width = std::max(expanded_width, all_heads * layer.attention.k_dim());
      scores_width = std::max<uint64_t>(scores_width, layer.attention.kv_heads);
    }
    if (layer.shared) {
      low_width = std::max(
          {low_width, 3 * uint64_t{layer.shared.qkv_rank}, uint64_t{layer.shared.mlp_rank}});
      expanded_width = std::max<uint64_t>(expanded_width, layer.mlp.width);
      added_width = std::max(
          {added_width, uint64_t{layer.attention.q_width()}, uint64_t{layer.attention.kv_width()}});
    }
    if (layer.latent) {
      low_width = std::max<uint64_t>(low_width, layer.latent.q_rank);
      expanded_width =
          std::max({expanded_width, uint64_t{layer.attention.heads} * layer.latent.q_dim(),
                    uint64_t{layer.attended_width()}});
    }
    if (!experts) continue;
    low_width = std::max<uint64_t>(low_width, experts.latent_width);
    scores_width = std::max<uint64_t>(scores_width, uint64_t{experts.routed()} + 1);
    routed_width = std::max<uint64_t>(routed_width, (uint64_t{experts.chosen} + 1) * plan.hidden);
  }
  const uint64_t streams_width = uint64_t{plan.streams().count} * plan.hidden;
  scores_width = std::max<uint64_t>(scores_width, plan.streams().count);
  for (const RopePlan& rope : plan.ropes) turned += rope.dim;
  const bool joins = head != nullptr || plan.reads_embedded();
  const uint64_t embedded_width = joins ? plan.hidden : 0;
  const uint64_t features = head != nullptr ? head->features : 0;
  const uint64_t joined_width = joins ? std::max(2 * uint64_t{plan.hidden}, features) : 0;
  const std::pair<HostMemory*, uint64_t> sizes[] = {
      {&hidden, rows_of(plan.hidden)},
      {&normed, rows_of(plan.hidden)},
      {&embedded, rows_of(embedded_width)},
      {&joined, rows_of(joined_width)},
      {&q, rows_of(heads)},
      {&k, rows_of(kv_heads)},
      {&v, rows_of(kv_heads)},
      {&attended, rows_of(heads)},
      {&attended_by_all, rows_of(by_all_width)},
      {&attention_gate, rows_of(gated)},
      {&inputs, rows_of(plan.layer_inputs_width())},
      {&beside, rows_of(beside_width)},
      {&low, rows_of(std::max<uint64_t>(low_width, wide.low))},
      {&expanded, rows_of(expanded_width)},
      {&inner, rows_of(inner_width)},
      {&recurrent[0], rows_of(wide.inputs[0])},
      {&recurrent[1], rows_of(wide.inputs[1])},
      {&recurrent[2], rows_of(wide.inputs[2])},
      {&mixed, rows_of(wide.mixed)},
      {&gate, rows_of(wide.gate)},
      {&scanned, rows_of(wide.inner)},
      {&streams, rows_of(streams_width)},
      {&product,
       rows_of(std::max<uint64_t>({plan.hidden, inner_width, streams_width, added_width}))},
      {&scores, rows_of(scores_width)},
      {&routed, rows_of(routed_width)},
      {&angles, rows_of(turned)},
      {&logits, rows_of(model.head.n_out)},
  };
  for (const auto& [memory, bytes] : sizes) {
    TENON_ASSIGN_OR_RETURN(*memory, activations(bytes));
  }
  return grow_for_adapters(plan, weights, max_rows);
}

Status CpuBuffers::grow_for_adapters(const ModelPlan& plan, const PackedWeights& weights,
                                     uint32_t max_rows) {
  uint64_t chosen = 1;
  for (const LayerPlan& layer : plan.layers) {
    if (layer.experts) chosen = std::max<uint64_t>(chosen, layer.experts.chosen);
  }
  const auto most_rows = static_cast<uint32_t>(std::min<uint64_t>(chosen * max_rows, UINT32_MAX));
  const auto rows_of = [max_rows](uint64_t width) {
    return saturating_mul(saturating_mul(kMostProducts * width, max_rows), sizeof(float));
  };
  const std::pair<HostMemory*, uint64_t> sizes[] = {
      {&prepared, weights.prepared_bytes(most_rows)},
      {&low_rank, rows_of(weights.highest_rank())},
      {&low_prepared, saturating_mul(kMostProducts, weights.prepared_low_bytes(max_rows))},
      {&low_beside, rows_of(weights.widest_beside())},
  };
  for (const auto& [memory, bytes] : sizes) {
    if (memory->bytes() >= bytes) continue;
    TENON_ASSIGN_OR_RETURN(*memory, activations(bytes));
  }
  return {};
}

bool CpuBuffers::intact() const {
  return std::ranges::all_of(
      all(), [this](const HostMemory* memory) { return memory == &attended || memory->intact(); });
}

// What is written there is read before the next exchange, which is that of the matrix that reads
// it. Where no layer has one, nothing says that the last step's logits were read.
Status SharedBuffers::allocate(const Model& model, const PackedWeights& weights, uint32_t max_rows,
                               const ModelCut& cut, const Collective& ranks) {
  const auto* const shared = dynamic_cast<const SharedCollective*>(&ranks);
  if (shared == nullptr) return {};
  const ModelPlan& plan = model.plan;
  uint64_t attended_width = 0, inner_width = 0;
  for (uint32_t i = 0; i < plan.layers.size(); ++i) {
    const PackedLayer& layer = weights.layer(i);
    if (cut.by_heads(i) && layer[&LayerWeights::output].starts != nullptr) {
      attended_width = std::max<uint64_t>(attended_width, cut.layers[i].attended.back());
    }
    if (plan.layers[i].has_dense_mlp() && layer[&LayerWeights::down].starts != nullptr) {
      inner_width = std::max<uint64_t>(inner_width, plan.layers[i].mlp.width);
    }
  }
  const bool meets = attended_width + inner_width > 0;
  const bool changes = plan.logit_scale != 1.0f || plan.logit_soft_cap != 0.0f;
  const bool gathers = weights.head().starts != nullptr;
  const uint64_t logits_width = meets && gathers && !changes ? model.head.n_out : 0;
  const std::pair<float**, uint64_t> widths[] = {
      {&attended, attended_width}, {&inner, inner_width}, {&logits, logits_width}};
  const auto bytes_of = [max_rows](uint64_t width) {
    return round_up_to_line(saturating_mul(saturating_mul(width, max_rows), sizeof(float)));
  };
  uint64_t bytes = 0;
  for (const auto& [buffer, width] : widths) bytes = saturating_add(bytes, bytes_of(width));
  if (bytes == 0) return {};
  TENON_ASSIGN_OR_RETURN(room, shared->room(bytes));
  std::byte* at = room->data();
  for (const auto& [buffer, width] : widths) {
    if (width > 0) *buffer = reinterpret_cast<float*>(at);
    at += bytes_of(width);
  }
  return {};
}

void CpuStep::reserve(uint32_t most) {
  max_rows = most;
  for (std::vector<uint32_t>* rows : {&kept, &logits_at, &hidden_at}) rows->reserve(max_rows);
  uint32_t experts = 0, chosen = 0;
  for (uint32_t i = 0; i < model->plan.layers.size(); ++i) {
    const LayerPlan& layer = model->plan.layers[i];
    if (layer.attends() || layer.recurrent) layers_with_mixers = i + 1;
    experts = std::max(experts, layer.experts.routed());
    chosen = std::max(chosen, layer.experts ? layer.experts.chosen : 0);
  }
  choice = std::make_unique<ExpertChoice>();
  choice->reserve(experts, chosen, max_rows);
  if (adapters == 0) return;
  for (AdapterRows* rows : {&adapter_rows, &kept_adapter_rows}) rows->reserve(max_rows, adapters);
  for (auto* rows : {&adapter_of_row_, &adapter_of_kept_}) rows->reserve(max_rows);
  counting.resize(max_rows);
  std::iota(counting.begin(), counting.end(), 0u);
  low_bytes = weights.prepared_low_bytes(max_rows);
  low_bytes_of_a_row = weights.prepared_low_bytes(1);
}

void CpuStep::make_ropes() {
  ropes.clear();
  float* angles = buffers.angles.floats();
  for (const RopePlan& rope : model->plan.ropes) {
    ropes.push_back({rope_frequencies(rope, shape->context_tokens), rope.dim / 2,
                     static_cast<float>(rope.scaling.attention_factor), rope.pairs, angles});
    angles += uint64_t{rope.dim} * max_rows;
  }
}

void CpuStep::begin(const BatchView& next) {
  batch = &next;
  has_failed = false;
  choice->used_bytes = 0;
  scores.begin(next);
  const auto layers = static_cast<uint32_t>(model->plan.layers.size());
  hidden_out.begin(next, model->plan.hidden);
  kept.assign(next.logits_rows.begin(), next.logits_rows.end());
  bool late = false;
  for (uint32_t i = std::max(layers_with_mixers, 1u) - 1; i <= layers; ++i) {
    late = late || hidden_out.of_layer(i) != nullptr;
  }
  if (late) {
    kept.clear();
    std::ranges::set_union(next.logits_rows, next.hidden_rows, std::back_inserter(kept));
  }
  const auto stand = [this](std::span<const uint32_t> rows, std::vector<uint32_t>& at) {
    at.clear();
    for (const uint32_t row : rows) {
      at.push_back(static_cast<uint32_t>(std::ranges::lower_bound(kept, row) - kept.begin()));
    }
  };
  stand(next.logits_rows, logits_at);
  stand(late ? next.hidden_rows : std::span<const uint32_t>(), hidden_at);
  if (adapters > 0) sort_adapters();
}

void CpuStep::sort_adapters() {
  adapter_of_row_.clear();
  for (const BatchSequence& sequence : batch->sequences) {
    adapter_of_row_.insert(adapter_of_row_.end(), sequence.rows,
                           static_cast<uint32_t>(sequence.adapter));
  }
  adapter_of_kept_.clear();
  for (const uint32_t row : kept) adapter_of_kept_.push_back(adapter_of_row_[row]);
  adapter_rows.sort(adapter_of_row_);
  kept_adapter_rows.sort(adapter_of_kept_);
}

}  // namespace tenon
