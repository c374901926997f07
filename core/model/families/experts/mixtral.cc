// Mixtral: Mistral with experts in every layer. Its factors, the softmax of all scores divided by
// the sum of the chosen, are the softmax of the chosen scores (arXiv:2401.04088).
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace mixtral_family {

constexpr TensorName kNames[] = {
    {Role::router, "block_sparse_moe.gate"},
    {Role::expert_gate, "block_sparse_moe.experts.*.w1"},
    {Role::expert_up, "block_sparse_moe.experts.*.w3"},
    {Role::expert_down, "block_sparse_moe.experts.*.w2"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(
      config, {.intermediate = 14336, .kv_heads = 8, .context_tokens = 131072, .bos = 1, .eos = 2},
      plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.experts = read_experts(config, {.count = 8, .chosen = 2, .width = shape.intermediate});
  layer.experts.normalised = true;
  check_experts(config, layer.experts);
  layer.mlp.activation = layer.experts.activation;
  if (config.has("sliding_window")) {
    layer.attention.window_tokens = config.count("sliding_window", 4096, 1, kMaxWidth);
  }
  // Disturbs training alone.
  (void)config.find("router_jitter_noise");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {.theta = 1e6}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields, {.count = "num_local_experts"}, config);
}

}  // namespace mixtral_family

// GGUF files call it a llama; that there are experts tells it from one.
const Family kMixtral{
    .model_type = "mixtral",
    .class_stem = "Mixtral",
    .architecture = "llama",
    .read = mixtral_family::read,
    .tensors = {.names = mixtral_family::kNames, .part = "block_sparse_moe.", .newer_part = "mlp."},
    .gguf_pairs_rows = true,
    .gguf_windows = GgufWindows::by_family,
    .from_gguf = mixtral_family::from_gguf,
    .to_gguf = experts_to_gguf};

}  // namespace tenon
