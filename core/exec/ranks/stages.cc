#include "core/exec/ranks/stages.h"

#include <algorithm>
#include <limits>

#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

constexpr uint64_t kRows = 8;  // of a step that costs are counted for

uint64_t bytes_of_weight(const Weight& weight) {
  uint64_t bytes = 0;
  for (const TensorView& part : weight.parts) bytes += bytes_of(part).size();
  return bytes;
}

// Whether a stage may begin with the layer.
bool may_begin(const ModelPlan& plan, size_t first) {
  // What experts of the layer before made is kept by who runs that layer.
  if (first < plan.layers.size() && plan.layers[first].joins_aside) return false;
  bool mixes = false, chooses = false;
  for (size_t i = first; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    mixes = mixes || layer.attends() || static_cast<bool>(layer.recurrent);
    const int32_t from = layer.attention.kv_from_layer;
    if (layer.attends() && from >= 0 && static_cast<size_t>(from) < first) return false;
    if (!layer.index || chooses) continue;
    if (layer.index.heads == 0) return false;  // it takes the choice of a layer before
    chooses = true;
  }
  return mixes;  // rows that nobody wants go with the last mixer
}

}  // namespace

std::vector<uint64_t> layer_costs(const Model& model) {
  std::vector<uint64_t> costs;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerWeights& layer = model.layers[i];
    uint64_t bytes = 0, of_experts = 0;
    for (const Weight* weight : layer.matrices()) bytes += bytes_of_weight(*weight);
    for (const ExpertWeights& expert : layer.experts) {
      for (const Weight* weight : {&expert.gate, &expert.up, &expert.down}) {
        of_experts += bytes_of_weight(*weight);
      }
    }
    const ExpertsPlan& plan = model.plan.layers[i].experts;
    const uint64_t used = std::min<uint64_t>(plan.count, kRows * plan.chosen);
    if (plan.count > 0) bytes = bytes - of_experts + of_experts / plan.count * used;
    costs.push_back(bytes);
  }
  return costs;
}

Result<std::vector<uint32_t>> cut_stages(const Model& model, uint32_t stages) {
  const ModelPlan& plan = model.plan;
  if (plan.input() || plan.streams() || plan.reads_embedded()) {
    return unsupported("the layers of this " + plan.architecture +
                       " model read more than one stream, which a stage does not hand on");
  }
  const std::vector<uint64_t> costs = layer_costs(model);
  const size_t layers = costs.size();
  std::vector<uint64_t> before(layers + 1);  // all layers before
  for (size_t i = 0; i < layers; ++i) before[i + 1] = before[i] + costs[i];
  const uint64_t head = bytes_of_weight(model.head);
  // best[s][i]: the least that the slowest of s stages costs, which have layers [0, i).
  constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  std::vector<std::vector<uint64_t>> best(stages + 1, std::vector<uint64_t>(layers + 1, kNever));
  std::vector<std::vector<uint32_t>> begins(stages + 1, std::vector<uint32_t>(layers + 1));
  best[0][0] = 0;
  std::vector<bool> allowed(layers + 1);
  for (size_t i = 1; i < layers; ++i) allowed[i] = may_begin(plan, i);
  allowed[0] = true;
  for (uint32_t stage = 1; stage <= stages; ++stage) {
    for (size_t last = 1; last <= layers; ++last) {
      for (size_t first = 0; first < last; ++first) {
        if (best[stage - 1][first] == kNever || !allowed[first]) continue;
        const uint64_t own = before[last] - before[first] + (last == layers ? head : 0);
        const uint64_t slowest = std::max(best[stage - 1][first], own);
        if (slowest >= best[stage][last]) continue;
        best[stage][last] = slowest;
        begins[stage][last] = static_cast<uint32_t>(first);
      }
    }
  }
  if (best[stages][layers] == kNever) {
    const auto most = 1 + std::ranges::count(allowed.begin() + 1, allowed.end(), true);
    return unsupported("the " + std::to_string(layers) + " layers of this " + plan.architecture +
                       " model can be shared out to " + std::to_string(most) +
                       " processes at most");
  }
  std::vector<uint32_t> starts(stages + 1, static_cast<uint32_t>(layers));
  for (uint32_t stage = stages; stage > 0; --stage) {
    starts[stage - 1] = begins[stage][starts[stage]];
  }
  return starts;
}

Result<ModelCut> cut_layers(const Model& model, uint32_t rank, uint32_t ranks) {
  ModelCut cut;
  TENON_ASSIGN_OR_RETURN(cut.stages, cut_stages(model, ranks));
  cut.rank = rank;
  cut.range = {cut.stages[rank], rank + 1 == ranks ? UINT32_MAX : cut.stages[rank + 1]};
  cut.fingerprint = fingerprint_of(model);
  return cut;
}

}  // namespace tenon
