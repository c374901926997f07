// The MLP that all tokens of a layer go through.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/model/blocks/fields.h"
#include "core/model/blocks/norm.h"
#include "core/model/blocks/weight.h"

namespace tenon {

// xielu has four numbers of its own in each layer (Xielu).
enum class Activation : uint8_t { silu, gelu, gelu_tanh, relu, relu_squared, xielu };
inline std::string_view name_of(Activation value) {
  constexpr std::array<std::string_view, 6> kNames = {"silu", "gelu",  "gelu_pytorch_tanh",
                                                      "relu", "relu2", "xielu"};
  return kNames[static_cast<size_t>(value)];
}

// xIELU (arXiv:2411.13010):
//   x > 0   alpha_p · x² + beta · x
//   else    alpha_n · (e^min(x, eps) - 1 - x) + beta · x
struct Xielu {
  float alpha_p = 0.0f, alpha_n = 0.0f, beta = 0.0f, eps = 0.0f;
};
// `stored`: the numbers of a layer as checkpoints have them. The logarithms there keep alpha_p
// above 0 and alpha_n above beta: alpha_p = softplus(stored), alpha_n = beta + softplus(stored).
Xielu xielu_of(const std::vector<float>& stored);

// gated: scale · down(act(gate_scale · gate(x)) · up(x)); plain: scale · down(act(up(x))). With a
// limit: min(act(gate), limit) · clamp(up, ±limit).
struct MlpPlan {
  uint32_t width = 0;  // 0: the layer has none
  bool gated = true;
  Activation activation = Activation::silu;
  bool bias = false;
  float gate_scale = 1.0f;
  float scale = 1.0f;
  // Of each row's products of the gate those count alone that are `gate_cutoff` standard deviations
  // above the row's mean, and by what they are above that (Gemma 3n).
  bool cuts_gate = false;
  float gate_cutoff = 0.0f;
  NormPlan inner_norm = {};  // of what down multiplies
  float limit = 0.0f;        // 0: none

  friend bool operator==(const MlpPlan&, const MlpPlan&) = default;
};

template <>
struct PlanFields<MlpPlan> {
  using P = MlpPlan;
  static constexpr void list(auto field) {
    field(&P::width, "the width of the MLP", "'intermediate_size'; 0: none");
    field(&P::gated, "whether the MLP is gated", "a tensor");
    field(&P::activation, "the activation", "'hidden_act', 'activation_function'");
    field(&P::bias, "the bias of the MLP", "'mlp_bias'");
    field(&P::gate_scale, "the factor on the MLP's gate", "'mlp_multipliers'");
    field(&P::scale, "the factor on the MLP's result", "'mlp_multipliers'");
    field(&P::cuts_gate, "whether the MLP's gate has a cutoff", "'activation_sparsity_pattern'");
    field(&P::gate_cutoff, "the cutoff of the MLP's gate", "'activation_sparsity_pattern'");
    field(&P::inner_norm, "the norm in the MLP", "");
    field(&P::limit, "the limit of the MLP", "'swiglu_limits_shared'; 0: none");
  }
};

// A row of the gate's products less its cutoff, or 0 where that is more.
void cut_gate(float cutoff, uint32_t width, float* row);

struct MlpWeights {
  std::vector<float> gate_bias, up_bias, down_bias;
  Weight gate, up;                // [width, hidden]; no gate in plain MLPs
  Weight down;                    // [hidden, width]
  std::vector<float> inner_norm;  // [width]
  std::vector<float> xielu;       // [4], alpha_p, alpha_n, beta, eps as stored; empty with others
};

}  // namespace tenon
