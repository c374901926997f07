// The residual stream: what enters it, the norms around a layer's halves, and the head that reads
// it.
#pragma once

#include <vector>

#include "core/model/blocks/norm.h"
#include "core/model/blocks/weight.h"

namespace tenon {

// Norms of a layer, [hidden] each, with the one added where NormPlan::plus_one says so. Empty where
// the layer has none.
struct StreamWeights {
  std::vector<float> attention_norm, attention_norm_bias;
  std::vector<float> attention_post_norm, attention_post_norm_bias;
  std::vector<float> mlp_norm, mlp_norm_bias;
  std::vector<float> mlp_post_norm, mlp_post_norm_bias;
  std::vector<float> layer_scale;                       // [1], where LayerPlan::scaled
  std::vector<float> attention_residual, mlp_residual;  // where LayerPlan::weighs_stream
};

}  // namespace tenon
