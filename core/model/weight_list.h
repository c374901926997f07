// The tensors of a model by their names in a Hugging Face checkpoint, for code that writes them.
#pragma once

#include <string>
#include <vector>

#include "core/model/model_config.h"

namespace tenon {

// What a dimension of a tensor counts.
enum class Axis { none, vocabulary, hidden, heads, kv_heads, head_dim, intermediate };

struct WeightEntry {
  std::string name;
  Axis rows;
  Axis columns;   // none for vectors
  int32_t layer;  // -1 for those outside the layers
  bool norm;      // a norm's weight
  bool bias;
  bool adds_back;  // writes to the residual stream: o_proj, down_proj
};

// Extent of an axis: `heads` and `kv_heads` count all elements of all heads.
uint64_t axis_extent(const ModelConfig& config, Axis axis);
// Every tensor that open_model needs, in the order in which they are used; no head when tied.
std::vector<WeightEntry> list_weights(const ModelConfig& config);

}  // namespace tenon
