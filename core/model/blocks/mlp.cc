#include "core/model/blocks/mlp.h"

#include <algorithm>
#include <cmath>

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

constexpr Role kGateAndUp[] = {Role::gate, Role::up};

// One of the numbers of xIELU, by its place in MlpWeights::xielu.
template <uint64_t place>
void xielu_place(Model& model, uint32_t layer, std::vector<TensorPlace>& out) {
  out.push_back({.rows = 1, .vector = &model.layers[layer].xielu, .first = place});
}
Extent xielu_extent(const ModelPlan&, const LayerPlan& l) {
  return {.rows = l.mlp.activation == Activation::xielu ? uint64_t{1} : 0};
}

constexpr BlockTensor kTensors[] = {
    {.role = Role::gate_up,
     .stored = "ffn_gate_up",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.mlp.gated ? 2 * uint64_t{l.mlp.width} : 0, l.mlp.bias);
         },
     .parts = kGateAndUp,
     .adapters = true},
    {.role = Role::gate,
     .name = "mlp.gate_proj",
     .stored = "ffn_gate",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.mlp.gated ? l.mlp.width : 0, l.mlp.bias, Axis::intermediate);
         },
     .in_layer = {.matrix = &LayerWeights::gate, .bias = &LayerWeights::gate_bias},
     .reads = Reads::mlp_input,
     .adapters = true},
    {.role = Role::up,
     .name = "mlp.up_proj",
     .stored = "ffn_up",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.mlp.width, l.mlp.bias, Axis::intermediate);
         },
     .in_layer = {.matrix = &LayerWeights::up, .bias = &LayerWeights::up_bias},
     .reads = Reads::mlp_input,
     .adapters = true},
    {.role = Role::down,
     .name = "mlp.down_proj",
     .stored = "ffn_down",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return to_stream(m, l.mlp.width, l.mlp.bias, Axis::intermediate);
         },
     .in_layer = {.matrix = &LayerWeights::down, .bias = &LayerWeights::down_bias},
     .reads = Reads::mlp_inner,
     .adapters = true},
    {.role = Role::inner_norm,
     .name = "mlp.ffn_sub_norm",
     .stored = "ffn_sub_norm",
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return of_norm(l.mlp.inner_norm, l.mlp.width); },
     .norm = [](const ModelPlan&, const LayerPlan& l) -> const NormPlan& {
       return l.mlp.inner_norm;
     },
     .in_layer = {.vector = &LayerWeights::inner_norm}},
    {.role = Role::xielu_alpha_p,
     .name = "mlp.act_fn.alpha_p",
     .stored = "ffn_xielu_alpha_p",
     .whole = true,
     .extent = xielu_extent,
     .places = xielu_place<0>},
    {.role = Role::xielu_alpha_n,
     .name = "mlp.act_fn.alpha_n",
     .stored = "ffn_xielu_alpha_n",
     .whole = true,
     .extent = xielu_extent,
     .places = xielu_place<1>},
    {.role = Role::xielu_beta,
     .name = "mlp.act_fn.beta",
     .stored = "ffn_xielu_beta",
     .whole = true,
     .scalar = true,
     .extent = xielu_extent,
     .places = xielu_place<2>,
     .draw = {.mean = 0.5, .deviation = 0.01}},
    {.role = Role::xielu_eps,
     .name = "mlp.act_fn.eps",
     .stored = "ffn_xielu_eps",
     .whole = true,
     .scalar = true,
     .extent = xielu_extent,
     .places = xielu_place<3>,
     .draw = {.mean = -1e-6, .deviation = 1e-9}},
};

}  // namespace

constinit const Block kMlp{
    [](const LayerPlan& l) { return l.has_dense_mlp() && !l.shared.borrows(); }, kTensors};

Xielu xielu_of(const std::vector<float>& stored) {
  if (stored.size() < 4) return {};
  const auto softplus = [](double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); };
  return {static_cast<float>(softplus(stored[0])),
          static_cast<float>(stored[2] + softplus(stored[1])), stored[2], stored[3]};
}

void cut_gate(float cutoff, uint32_t width, float* row) {
  double sum = 0.0, squares = 0.0;
  for (uint32_t i = 0; i < width; ++i) sum += row[i];
  const double mean = sum / width;
  for (uint32_t i = 0; i < width; ++i) squares += (row[i] - mean) * (row[i] - mean);
  const auto least = static_cast<float>(mean + std::sqrt(squares / width) * double{cutoff});
  for (uint32_t i = 0; i < width; ++i) row[i] = std::max(row[i] - least, 0.0f);
}

}  // namespace tenon
