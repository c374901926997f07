// A plan whose layers are alike but for their windows, as one row of numbers: handier for tests
// than a list of layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/plan/model_plan.h"

namespace tenon::test {

struct FlatConfig {
  std::string architecture;
  uint32_t hidden = 0;
  uint32_t intermediate = 0;
  uint32_t layers = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t vocabulary = 0;
  uint32_t context_tokens = 0;
  float norm_eps = 1e-5f;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  std::vector<float> rope_factors;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;                 // of each head
  std::vector<uint32_t> window_tokens;  // [layers]; empty: none
  std::optional<TokenId> bos;
  std::vector<TokenId> eos;

  // A Llama, and its variants.
  ModelPlan plan() const;
};

// What the first layer and the first rotary setting say, and the windows of all layers.
FlatConfig flat(const ModelPlan& plan);
std::vector<float> first_frequencies(const ModelPlan& plan);

}  // namespace tenon::test
