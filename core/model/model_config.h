// An architecture as data: what the decoder needs to know of a model, read from the checkpoint's
// own config.json. A model family is a row of features here, not a class.
#pragma once

#include <tenon/model.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace tenon {

enum class RopeScalingKind { none, linear, llama3 };
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::none;
  double factor = 1.0;
  double low_freq_factor = 1.0;  // llama3 only, as the two below
  double high_freq_factor = 4.0;
  uint32_t original_context_tokens = 0;
};

struct ModelConfig {
  std::string architecture;  // config.json's model_type: "llama", "qwen3", …
  uint32_t hidden = 0;
  uint32_t intermediate = 0;  // width of the gated MLP
  uint32_t layers = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;  // may differ from hidden / heads
  uint32_t vocabulary = 0;
  uint32_t context_tokens = 0;  // max_position_embeddings
  float norm_eps = 1e-5f;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  std::vector<float> rope_factors;  // [head_dim / 2] divide the frequencies; empty = none
  bool tied_embeddings = false;     // the LM head is the embedding matrix
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention output projection
  bool mlp_bias = false;
  bool qk_norm = false;                 // RMS norm over each head of q and k, before rotation
  std::vector<uint32_t> window_tokens;  // [layers]; 0 = unlimited
  std::optional<TokenId> bos;
  std::vector<TokenId> eos;  // any of them ends a text
};

// What generation_config.json recommends; absent members were not given.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<uint32_t> top_k;
  std::optional<float> top_p;
  std::vector<TokenId> eos;
};

// Parses the text of a config.json. `name` (a path) leads every message. An architecture or a
// feature that is not supported is refused with a sentence that names what differs.
Result<ModelConfig> parse_model_config(std::string_view json, std::string_view name);
Result<GenerationDefaults> parse_generation_config(std::string_view json, std::string_view name);

// The rotary embedding's angular frequencies, [head_dim / 2], scaling applied.
std::vector<float> rope_frequencies(const ModelConfig& config);

// The shape that crosses the boundary, with the arrays it points to. Not movable once made. Layers
// that keep the same, windows included, form a group.
class ModelShapeStorage {
 public:
  ModelShapeStorage(const ModelConfig& config, uint32_t context_tokens);
  // The target's groups and layers, then the draft's, for who keeps K/V of both; the rest is the
  // target's.
  ModelShapeStorage(const ModelShape& target, const ModelShape& draft);
  ModelShapeStorage(const ModelShapeStorage&) = delete;
  ModelShapeStorage& operator=(const ModelShapeStorage&) = delete;
  const ModelShape& shape() const { return shape_; }

 private:
  void point_to_arrays();

  std::vector<KvGroup> groups_;
  std::vector<LayerShape> layers_;
  ModelShape shape_;
};

}  // namespace tenon
