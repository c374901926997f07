#include "core/pipeline/ranks_text.h"

#include <map>
#include <memory>
#include <utility>

#include "core/base/text.h"
#include "core/pipeline/memory_text.h"

namespace tenon {
namespace {

// K and V of a rank, in as many blocks as all have. A stage keeps those of its own layers, and the
// states of all.
uint64_t kv_bytes_of(const PlannedMemory& pipeline, const RankPart& part) {
  const ModelShapeStorage storage(part.plan, pipeline.limits.context_tokens);
  const ModelShape& shape = storage.shape();
  uint64_t bytes = 0;
  for (GroupId group = 0; group < shape.group_count; ++group) {
    const KvGroupGeometry& has = pipeline.group_geometry[group];
    uint64_t own = uint64_t{has.blocks} * has.block_tokens *
                   kv_bytes_per_token(shape, group, pipeline.kv_dtype);
    if (shape.groups[group].kind != KvKind::recurrent) {
      uint32_t storages = 0;
      for (LayerId layer = 0; layer < shape.layer_count; ++layer) {
        const LayerShape& one = shape.layers[layer];
        const bool keeps = one.group == group && one.shares_kv_with < 0;
        if (keeps && part.cut.range.contains(layer)) ++storages;
      }
      own = own / shape.groups[group].layers * storages;
    }
    bytes += own;
  }
  return bytes;
}

std::string heads_text(const ModelPlan& plan) {
  for (const LayerPlan& layer : plan.layers) {
    if (!layer.attends()) continue;
    const std::string heads = std::to_string(layer.attention.heads);
    return heads + (layer.attention.heads == 1 ? " head, " : " heads, ") +
           (layer.latent ? std::string("one latent row")
                         : std::to_string(layer.attention.kv_heads) + " of K and V");
  }
  return "no heads";
}

// "; experts 0 to 63", of the first layer whose experts are shared out.
std::string experts_text(const ModelCut& cut) {
  for (const HeadsCut& layer : cut.layers) {
    if (layer.experts.empty()) continue;
    return ", experts " + std::to_string(layer.experts[cut.rank]) + " to " +
           std::to_string(layer.experts[cut.rank + 1] - 1);
  }
  return {};
}

std::string layers_text(const RankPart& part) {
  const uint32_t first = part.cut.stages[part.cut.rank];
  const uint32_t last = part.cut.stages[part.cut.rank + 1];
  const std::string head = part.cut.range.has_last(part.plan) ? " and the head" : "";
  return "layers " + std::to_string(first) + " to " + std::to_string(last - 1) + head;
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

std::string bytes_text(uint64_t elements) {
  return approximate_bytes(elements * sizeof(float));
}

std::string exchanges_text(const RankPart& part) {
  if (!part.cut.stages.empty()) {
    return "#   handed on for each row: " + bytes_text(part.plan.hidden) +
           " from stage to stage, and " + bytes_text(part.logits_elements) +
           " to rank 0 where its logits are wanted\n";
  }
  return std::string("#   ") + (part.cut.adds() ? "gathered or added up" : "gathered") +
         " for each row: " + bytes_text(part.most_elements) + " a layer at most, " +
         bytes_text(part.all_elements) + " in all layers, and " + bytes_text(part.logits_elements) +
         " where its logits are wanted\n";
}

std::string head_line(const PlannedMemory& pipeline) {
  const std::vector<RankPart>& parts = pipeline.rank_parts;
  const std::string text = "# parallel: " + std::to_string(parts.size()) + " ranks; ";
  if (!parts.front().cut.stages.empty())
    return text + "each runs some layers, one after the other\n";
  if (!parts.front().cut.adds()) {
    return text + "matrices are cut by columns, and what they make is gathered\n";
  }
  uint32_t sums = 0;
  for (const HeadsCut& layer : parts.front().cut.layers) {
    sums += (layer.adds_attention ? 1 : 0) + (layer.adds_mlp() ? 1 : 0);
  }
  return text + std::to_string(sums) +
         " products are cut along K, and their parts are added up in the order of ranks; others by "
         "columns, which are gathered\n";
}

}  // namespace

std::string ranks_text(const PlannedMemory& pipeline) {
  std::string text;
  if (!pipeline.rank_parts.empty()) text += head_line(pipeline);
  for (const RankPart& part : pipeline.rank_parts) {
    text += "#   rank " + std::to_string(part.cut.rank) + ": " +
            (part.cut.stages.empty() ? heads_text(part.plan) + experts_text(part.cut)
                                     : layers_text(part)) +
            "; weights " + approximate_bytes(part.weight_bytes) + ", K/V " +
            approximate_bytes(kv_bytes_of(pipeline, part)) + "\n";
  }
  if (!pipeline.rank_parts.empty()) {
    const RankPart& last = pipeline.rank_parts.back();
    text += whole_layers_text(last.cut) + exchanges_text(last);
  }
  const uint32_t engines = pipeline.config.engines();
  if (engines == 1) return text;
  return text + "# a server has " + std::to_string(engines) +
         " engines, with the weights once and K/V of their own" +
         (pipeline.rank_parts.empty() ? "" : " at every rank") + "\n";
}

}  // namespace tenon
