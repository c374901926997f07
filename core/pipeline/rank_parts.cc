#include "core/pipeline/rank_parts.h"

#include <algorithm>
#include <iterator>

#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

constexpr Weight LayerWeights::*kOfHeads[] = {&LayerWeights::q, &LayerWeights::k, &LayerWeights::v,
                                              &LayerWeights::output_gate};
constexpr Weight LayerWeights::*kOfMlp[] = {&LayerWeights::gate, &LayerWeights::up,
                                            &LayerWeights::down};

double bytes_of_weight(const Weight& weight) {
  double bytes = 0;
  for (const TensorView& part : weight.parts) bytes += static_cast<double>(bytes_of(part).size());
  return bytes;
}

bool is_one_of(const LayerWeights& layer, const Weight* weight, const auto& members) {
  return std::ranges::any_of(members, [&](auto member) { return &(layer.*member) == weight; });
}

bool is_of_heads(const LayerWeights& layer, const Weight* weight) {
  for (const auto* heads : {&layer.k_absorb, &layer.v_expand}) {
    for (const Weight& head : *heads) {
      if (&head == weight) return true;
    }
  }
  return is_one_of(layer, weight, kOfHeads);
}

// Whether the matrix was cut already, and counts as it is.
bool is_own(const LayerWeights& layer, const Weight* weight, const HeadsCut& cut) {
  if (!cut.attended.empty() && is_of_heads(layer, weight)) return true;
  if (cut.adds_attention && weight == &layer.output) return true;
  return cut.adds_mlp() && is_one_of(layer, weight, kOfMlp);
}

// Sorted.
std::vector<const Weight*> expert_matrices(const LayerWeights& layer) {
  std::vector<const Weight*> of_experts;
  for (const ExpertWeights& expert : layer.experts) {
    for (const Weight* weight : {&expert.gate, &expert.up, &expert.down}) {
      of_experts.push_back(weight);
    }
  }
  std::ranges::sort(of_experts);
  return of_experts;
}

// What several devices have some columns of each (exec/cuda/weights).
bool is_cut_over_devices(const LayerPlan& plan, const LayerWeights& layer, const Weight* weight,
                         const std::vector<const Weight*>& of_experts) {
  constexpr Weight LayerWeights::*kCut[] = {&LayerWeights::output,      &LayerWeights::gate,
                                            &LayerWeights::up,          &LayerWeights::down,
                                            &LayerWeights::shared_gate, &LayerWeights::shared_up,
                                            &LayerWeights::shared_down, &LayerWeights::ssm_out};
  if (plan.shared) return false;
  return is_one_of(layer, weight, kCut) || std::ranges::binary_search(of_experts, weight);
}

// What products read on a device: f32 where all of the model is.
double device_element_share(const Model& model) {
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) {
      if (weight->n_out > 0 && weight->format != "f32") return 0.5;
    }
  }
  return 1.0;
}

double bytes_of_rank(const Model& model, const ModelCut& cut, RankMemory memory) {
  const auto share = [&](const Weight& weight) {
    if (weight.n_out == 0) return 0.0;
    const ColumnStarts starts = cut_columns(weight.n_out, 16, cut.ranks);
    return bytes_of_weight(weight) * (starts[cut.rank + 1] - starts[cut.rank]) / weight.n_out;
  };
  const bool has_head =
      cut.range.has_last(model.plan) || (cut.range.has_first() && model.plan.tied_embeddings);
  double bytes = !has_head            ? 0.0
                 : cut.stages.empty() ? share(model.head)
                                      : bytes_of_weight(model.head);
  const bool on_device = memory == RankMemory::device;
  if (on_device && !model.plan.tied_embeddings) bytes += share(model.embedding);
  for (uint32_t index = 0; index < model.layers.size(); ++index) {
    if (!cut.range.contains(index)) continue;
    const LayerWeights& layer = model.layers[index];
    if (on_device) {
      const std::vector<const Weight*> of_experts = expert_matrices(layer);
      for (const Weight* weight : layer.matrices()) {
        const bool is_cut =
            is_cut_over_devices(model.plan.layers[index], layer, weight, of_experts);
        bytes += is_cut ? share(*weight) : bytes_of_weight(*weight);
      }
      continue;
    }
    const bool shares = !cut.layers.empty() && !cut.layers[index].experts.empty();
    std::vector<const Weight*> of_experts;
    if (shares) of_experts = expert_matrices(layer);
    for (const Weight* weight : layer.matrices()) {
      if (std::ranges::binary_search(of_experts, weight)) continue;
      const bool own =
          !cut.stages.empty() || (!cut.layers.empty() && is_own(layer, weight, cut.layers[index]));
      bytes += own ? bytes_of_weight(*weight) : share(*weight);
    }
    if (!shares) continue;
    const ColumnStarts& owners = cut.layers[index].experts;
    for (uint32_t expert = owners[cut.rank]; expert < owners[cut.rank + 1]; ++expert) {
      const ExpertWeights& one = layer.experts[expert];
      for (const Weight* weight : {&one.gate, &one.up, &one.down}) {
        bytes += bytes_of_weight(*weight);
      }
    }
  }
  return bytes;
}

// Elements of a row that a layer's ranks gather or add up.
uint64_t exchanged_by_layer(const Model& model, const ModelCut& cut, uint32_t index) {
  const LayerPlan& plan = model.plan.layers[index];
  const LayerWeights& layer = model.layers[index];
  const HeadsCut& of_layer = cut.layers[index];
  uint64_t elements =
      cut.by_heads(index) && !of_layer.adds_attention ? of_layer.attended.back() : 0;
  if (of_layer.adds_attention) elements += model.plan.hidden;
  if (of_layer.adds_mlp()) elements += model.plan.hidden;
  const std::vector<const Weight*> of_experts = expert_matrices(layer);
  for (const Weight* weight : layer.matrices()) {
    if (is_own(layer, weight, of_layer)) continue;
    if (weight == &layer.router || weight == &layer.shared_router) continue;
    // Gate and up become one row in most kernels.
    if (weight == &layer.gate || weight == &layer.shared_gate) continue;
    if (std::ranges::binary_search(of_experts, weight)) continue;
    elements += weight->n_out;
  }
  if (plan.experts) {
    const uint64_t out =
        plan.experts.latent_width > 0 ? plan.experts.latent_width : model.plan.hidden;
    // Whole experts: what a rank gets of a row's results where it adds them up, and the sum.
    elements += of_layer.experts.empty()
                    ? uint64_t{plan.experts.chosen} * (plan.experts.width + out)
                    : uint64_t{plan.experts.chosen} * out / cut.ranks + out;
  }
  return elements;
}

// The same of devices, in numbers of f32: what products read next goes as they read it.
uint64_t exchanged_by_device_layer(const Model& model, const ModelCut& cut, uint32_t index) {
  const LayerPlan& plan = model.plan.layers[index];
  const LayerWeights& layer = model.layers[index];
  uint64_t inputs = cut.by_heads(index) ? cut.layers[index].attended.back() : 0;
  uint64_t results = layer.ssm_out.n_out;
  if (!plan.shared) {
    inputs += layer.up.n_out + layer.shared_up.n_out;
    results += uint64_t{layer.output.n_out} + layer.down.n_out;
  }
  if (plan.experts) {
    inputs += uint64_t{plan.experts.chosen} * plan.experts.width;
    results += model.plan.hidden;  // once they are added up
  }
  return results + static_cast<uint64_t>(static_cast<double>(inputs) * device_element_share(model));
}

RankPart part_of(const Model& model, ModelCut cut, RankMemory memory) {
  RankPart part{.cut = std::move(cut), .plan = model.plan};
  part.weight_bytes = static_cast<uint64_t>(bytes_of_rank(model, part.cut, memory));
  for (uint32_t index = 0; index < part.cut.layers.size(); ++index) {
    const uint64_t own = memory == RankMemory::device
                             ? exchanged_by_device_layer(model, part.cut, index)
                             : exchanged_by_layer(model, part.cut, index);
    part.all_elements += own;
    part.most_elements = std::max(part.most_elements, own);
  }
  part.logits_elements = model.head.n_out;
  return part;
}

}  // namespace

Result<std::vector<RankPart>> parts_of_ranks(
    Model& model, uint32_t ranks, RankMemory memory,
    const std::function<Result<ModelCut>(Model& model, uint32_t rank)>& cut) {
  const ModelPlan plan = model.plan;
  const std::vector<LayerWeights> layers = model.layers;
  std::vector<RankPart> parts;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    TENON_ASSIGN_OR_RETURN(ModelCut made, cut(model, rank));
    parts.push_back(part_of(model, std::move(made), memory));
    model.plan = plan;
    model.layers = layers;
  }
  return parts;
}

}  // namespace tenon
