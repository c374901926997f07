#include "core/pipeline/ranks_text.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "core/base/text.h"
#include "core/model/tensors/tensor_values.h"
#include "core/pipeline/memory_text.h"

namespace tenon {
namespace {

constexpr Weight LayerWeights::*kOfHeads[] = {&LayerWeights::q, &LayerWeights::k, &LayerWeights::v,
                                              &LayerWeights::output_gate};

double bytes_of_weight(const Weight& weight) {
  double bytes = 0;
  for (const TensorView& part : weight.parts) bytes += static_cast<double>(bytes_of(part).size());
  return bytes;
}

bool is_of_heads(const LayerWeights& layer, const Weight* weight) {
  for (const auto* heads : {&layer.k_absorb, &layer.v_expand}) {
    for (const Weight& head : *heads) {
      if (&head == weight) return true;
    }
  }
  return std::ranges::any_of(kOfHeads, [&](auto member) { return &(layer.*member) == weight; });
}

// Of a rank whose heads are cut already: they count as they are, other matrices by its share.
double bytes_of_rank(const Model& model, const ModelCut& cut) {
  const auto share = [&](const Weight& weight) {
    if (weight.n_out == 0) return 0.0;
    const ColumnStarts starts = cut_columns(weight.n_out, 16, cut.ranks);
    return bytes_of_weight(weight) * (starts[cut.rank + 1] - starts[cut.rank]) / weight.n_out;
  };
  double bytes = share(model.head);
  for (uint32_t index = 0; index < model.layers.size(); ++index) {
    const LayerWeights& layer = model.layers[index];
    for (const Weight* weight : layer.matrices()) {
      const bool own = cut.by_heads(index) && is_of_heads(layer, weight);
      bytes += own ? bytes_of_weight(*weight) : share(*weight);
    }
  }
  return bytes;
}

// Elements of a row that a layer's ranks gather.
uint64_t gathered_by_layer(const Model& model, const ModelCut& cut, uint32_t index) {
  const LayerPlan& plan = model.plan.layers[index];
  const LayerWeights& layer = model.layers[index];
  uint64_t elements = cut.by_heads(index) ? cut.layers[index].attended.back() : 0;
  std::vector<const Weight*> of_experts;
  for (const ExpertWeights& expert : layer.experts) {
    for (const Weight* weight : {&expert.gate, &expert.up, &expert.down}) {
      of_experts.push_back(weight);
    }
  }
  for (const Weight* weight : layer.matrices()) {
    if (cut.by_heads(index) && is_of_heads(layer, weight)) continue;
    if (weight == &layer.router || weight == &layer.shared_router) continue;
    // Gate and up become one row in most kernels.
    if (weight == &layer.gate || weight == &layer.shared_gate) continue;
    if (std::ranges::find(of_experts, weight) != of_experts.end()) continue;
    elements += weight->n_out;
  }
  if (plan.experts) {
    const uint64_t out =
        plan.experts.latent_width > 0 ? plan.experts.latent_width : model.plan.hidden;
    elements += uint64_t{plan.experts.chosen} * (plan.experts.width + out);
  }
  return elements;
}

// K and V of a rank, in as many blocks as all have.
uint64_t kv_bytes_of(const PlannedMemory& pipeline, const ModelShape& shape) {
  uint64_t bytes = 0;
  for (GroupId group = 0; group < shape.group_count; ++group) {
    const KvGroupGeometry& has = pipeline.group_geometry[group];
    bytes += uint64_t{has.blocks} * has.block_tokens *
             kv_bytes_per_token(shape, group, pipeline.kv_dtype);
  }
  return bytes;
}

std::string heads_text(const Model& model) {
  for (const LayerPlan& layer : model.plan.layers) {
    if (!layer.attends()) continue;
    const std::string heads = std::to_string(layer.attention.heads);
    return heads + (layer.attention.heads == 1 ? " head, " : " heads, ") +
           (layer.latent ? std::string("one latent row")
                         : std::to_string(layer.attention.kv_heads) + " of K and V");
  }
  return "no heads";
}

std::string whole_layers_text(const ModelCut& cut) {
  std::map<std::string, uint32_t> reasons;
  for (const HeadsCut& layer : cut.layers) {
    if (!layer.whole_because.empty()) ++reasons[layer.whole_because];
  }
  std::string text;
  for (const auto& [reason, layers] : reasons) {
    text += "#   attention of " + std::to_string(layers) + (layers == 1 ? " layer" : " layers") +
            " is computed whole by every rank, since " + reason + "\n";
  }
  return text;
}

std::string gathers_text(const Model& model, const ModelCut& cut) {
  uint64_t elements = 0, most = 0;
  for (uint32_t index = 0; index < model.layers.size(); ++index) {
    const uint64_t own = gathered_by_layer(model, cut, index);
    elements += own;
    most = std::max(most, own);
  }
  const auto bytes = [](uint64_t count) { return approximate_bytes(count * sizeof(float)); };
  return "#   gathered for each row: " + bytes(most) + " a layer at most, " + bytes(elements) +
         " in all layers, and " + bytes(model.head.n_out) + " where its logits are wanted\n";
}

}  // namespace

Result<std::string> ranks_text(const PlannedMemory& pipeline) {
  const uint32_t ranks = pipeline.config.tensor_ranks.value;
  if (ranks == 1) return std::string();
  std::string text = "# parallel: " + std::to_string(ranks) +
                     " ranks; matrices are cut by columns, and what they make is gathered\n";
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    TENON_ASSIGN_OR_RETURN(
        const std::unique_ptr<Model> model,
        open_model(pipeline.config.model_path.value, pipeline.config.model_as.value));
    const bool adapted = !pipeline.config.adapters.empty();
    const ModelCut cut =
        cut_heads(*model, rank, ranks, adapted ? "adapters change its products" : "");
    const ModelShapeStorage shape(model->plan, pipeline.limits.context_tokens);
    text += "#   rank " + std::to_string(rank) + ": " + heads_text(*model) + "; weights " +
            approximate_bytes(static_cast<uint64_t>(bytes_of_rank(*model, cut))) + ", K/V " +
            approximate_bytes(kv_bytes_of(pipeline, shape.shape())) + "\n";
    if (rank + 1 == ranks) text += whole_layers_text(cut) + gathers_text(*model, cut);
  }
  return text;
}

}  // namespace tenon
