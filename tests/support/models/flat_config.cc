#include "tests/support/models/flat_config.h"

#include <cmath>

namespace tenon::test {

ModelPlan FlatConfig::plan() const {
  ModelPlan plan;
  plan.architecture = architecture;
  plan.hidden = hidden;
  plan.vocabulary = vocabulary;
  plan.context_tokens = context_tokens;
  plan.tied_embeddings = tied_embeddings;
  plan.ropes.push_back({.dim = head_dim,
                        .pairs = false,
                        .theta = rope_theta,
                        .scaling = rope_scaling,
                        .factors = rope_factors});
  plan.final_norm = {.kind = NormKind::rms, .eps = norm_eps};
  plan.bos = bos;
  plan.eos = eos;
  LayerPlan layer;
  layer.attention_norm = layer.mlp_norm = plan.final_norm;
  layer.attention.heads = heads;
  layer.attention.kv_heads = kv_heads;
  layer.attention.head_dim = head_dim;
  layer.attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  layer.attention.qkv_bias = qkv_bias;
  layer.attention.output_bias = output_bias;
  if (qk_norm) layer.attention.qk_norm = plan.final_norm;
  layer.mlp.width = intermediate;
  layer.mlp.bias = mlp_bias;
  plan.layers.assign(layers, layer);
  for (size_t i = 0; i < window_tokens.size() && i < plan.layers.size(); ++i) {
    plan.layers[i].attention.window_tokens = window_tokens[i];
  }
  return plan;
}

FlatConfig flat(const ModelPlan& plan) {
  FlatConfig out;
  if (plan.layers.empty()) return out;
  const LayerPlan& layer = plan.layers.front();
  out.architecture = plan.architecture;
  out.hidden = plan.hidden;
  out.intermediate = layer.mlp.width;
  out.layers = static_cast<uint32_t>(plan.layers.size());
  out.heads = layer.attention.heads;
  out.kv_heads = layer.attention.kv_heads;
  out.head_dim = layer.attention.head_dim;
  out.vocabulary = plan.vocabulary;
  out.context_tokens = plan.context_tokens;
  out.norm_eps = plan.final_norm.eps;
  if (!plan.ropes.empty()) {
    out.rope_theta = plan.ropes.front().theta;
    out.rope_scaling = plan.ropes.front().scaling;
    out.rope_factors = plan.ropes.front().factors;
  }
  out.tied_embeddings = plan.tied_embeddings;
  out.qkv_bias = layer.attention.qkv_bias;
  out.output_bias = layer.attention.output_bias;
  out.mlp_bias = layer.mlp.bias;
  out.qk_norm = static_cast<bool>(layer.attention.qk_norm);
  for (const LayerPlan& each : plan.layers) {
    out.window_tokens.push_back(each.attention.window_tokens);
  }
  out.bos = plan.bos;
  out.eos = plan.eos;
  return out;
}

std::vector<float> first_frequencies(const ModelPlan& plan) {
  if (plan.ropes.empty()) return {};
  return rope_frequencies(plan.ropes.front(), plan.context_tokens);
}

}  // namespace tenon::test
