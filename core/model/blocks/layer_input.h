// What each layer is given of a token by itself, next to the stream: per-layer embeddings.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/blocks/mlp.h"
#include "core/model/blocks/norm.h"

namespace tenon {

// Before the first layer, x being what enters it, w the width and e a row of a second table of
// embeddings, which has w elements for each layer:
//
//   input = (norm(projection(x) / sqrt(hidden)) + sqrt(w) · e) / sqrt(2)
//
// with the norm of each layer's w elements. A layer adds to the stream, after its halves,
// post_norm(out(act(gate(x)) · input)).
struct LayerInputPlan {
  uint32_t width = 0;  // 0: none; equal in all layers of a model
  Activation activation = Activation::gelu_tanh;
  NormPlan norm;  // both

  explicit operator bool() const { return width > 0; }
  friend bool operator==(const LayerInputPlan&, const LayerInputPlan&) = default;
};

template <>
struct PlanFields<LayerInputPlan> {
  using P = LayerInputPlan;
  static constexpr void list(auto field) {
    field(&P::width, "the width of per-layer embeddings", "'hidden_size_per_layer_input'; 0: none");
    field(&P::activation, "the activation of per-layer embeddings", "'hidden_activation'");
    field(&P::norm, "the norm of per-layer embeddings", "");
  }
};

struct LayerInputWeights {
  Weight input_gate;              // [width, hidden]
  Weight input_out;               // [hidden, width]
  std::vector<float> input_norm;  // [hidden], the one after input_out
};

}  // namespace tenon
