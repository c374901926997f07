#include "core/model/weight_list.h"

namespace tenon {
namespace {

void add_layer(const ModelConfig& config, int32_t layer, std::vector<WeightEntry>& list) {
  const std::string stem = "model.layers." + std::to_string(layer) + ".";
  const std::string attention = stem + "self_attn.", mlp = stem + "mlp.";
  const auto norm = [&](const std::string& name, Axis axis) {
    list.push_back({name + ".weight", axis, Axis::none, layer, true, false, false});
  };
  const auto linear = [&](const std::string& name, Axis rows, Axis columns, bool bias) {
    const bool adds_back = rows == Axis::hidden;
    list.push_back({name + ".weight", rows, columns, layer, false, false, adds_back});
    if (bias) list.push_back({name + ".bias", rows, Axis::none, layer, false, true, adds_back});
  };
  norm(stem + "input_layernorm", Axis::hidden);
  linear(attention + "q_proj", Axis::heads, Axis::hidden, config.qkv_bias);
  linear(attention + "k_proj", Axis::kv_heads, Axis::hidden, config.qkv_bias);
  linear(attention + "v_proj", Axis::kv_heads, Axis::hidden, config.qkv_bias);
  if (config.qk_norm) {
    norm(attention + "q_norm", Axis::head_dim);
    norm(attention + "k_norm", Axis::head_dim);
  }
  linear(attention + "o_proj", Axis::hidden, Axis::heads, config.output_bias);
  norm(stem + "post_attention_layernorm", Axis::hidden);
  linear(mlp + "gate_proj", Axis::intermediate, Axis::hidden, config.mlp_bias);
  linear(mlp + "up_proj", Axis::intermediate, Axis::hidden, config.mlp_bias);
  linear(mlp + "down_proj", Axis::hidden, Axis::intermediate, config.mlp_bias);
}

}  // namespace

uint64_t axis_extent(const ModelConfig& config, Axis axis) {
  switch (axis) {
    case Axis::none:
      return 1;
    case Axis::vocabulary:
      return config.vocabulary;
    case Axis::hidden:
      return config.hidden;
    case Axis::heads:
      return uint64_t{config.heads} * config.head_dim;
    case Axis::kv_heads:
      return uint64_t{config.kv_heads} * config.head_dim;
    case Axis::head_dim:
      return config.head_dim;
    case Axis::intermediate:
      return config.intermediate;
  }
  return 1;
}

std::vector<WeightEntry> list_weights(const ModelConfig& config) {
  std::vector<WeightEntry> list;
  const auto matrix = [&](const char* name) {
    list.push_back({name, Axis::vocabulary, Axis::hidden, -1, false, false, false});
  };
  matrix("model.embed_tokens.weight");
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    add_layer(config, static_cast<int32_t>(layer), list);
  }
  list.push_back({"model.norm.weight", Axis::hidden, Axis::none, -1, true, false, false});
  if (!config.tied_embeddings) matrix("lm_head.weight");
  return list;
}

}  // namespace tenon
