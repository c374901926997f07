// OLMo Hybrid: layers with a gated delta rule whose state may also turn around, and every few
// layers one of OLMo 2's, with norms after both halves.
#include <algorithm>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace olmo_hybrid_family {

constexpr TensorName kNames[] = {
    {Role::attention_norm, "attention_layer_norm"},
    {Role::mlp_norm, "feedforward_layer_norm"},
    {Role::attention_post_norm, "post_attention_layernorm"},
    {Role::mlp_post_norm, "post_feedforward_layernorm"},
    // Names of GGUF files that differ from attention's, although no converter writes any.
    {Role::ssm_in_q, "linear_attn.q_proj", "ssm_q"},
    {Role::ssm_in_k, "linear_attn.k_proj", "ssm_k"},
    {Role::ssm_in_v, "linear_attn.v_proj", "ssm_v"},
    {Role::ssm_in_gate, "linear_attn.g_proj"},
    {Role::ssm_in_step, "linear_attn.a_proj", "ssm_alpha"},
    {Role::ssm_beta, "linear_attn.b_proj", "ssm_beta"},
    {Role::ssm_conv_q, "linear_attn.q_conv1d"},
    {Role::ssm_conv_k, "linear_attn.k_conv1d"},
    {Role::ssm_conv_v, "linear_attn.v_conv1d"},
    {Role::ssm_dt_bias, "linear_attn.dt_bias", "ssm_dt.bias", true},
    {Role::ssm_a, "linear_attn.A_log", "ssm_a", true},
    {Role::ssm_norm, "linear_attn.o_norm"},
    {Role::ssm_out, "linear_attn.o_proj"},
};
constexpr std::pair<std::string_view, std::string_view> kInMemory[] = {
    {"attention_layer_norm", "input_layernorm"},
    {"feedforward_layer_norm", "post_attention_layernorm"},
};
constexpr uint32_t kMaxHead = 32768;
constexpr float kGateEps = 1e-5f;  // as transformers hard-codes it

RecurrentPlan read_delta(const JsonFields& config, const Shape& shape) {
  RecurrentPlan delta{.kind = Recurrence::gated_delta, .gate_norm = {}};
  delta.groups = config.count("linear_num_key_heads", shape.heads, 1, kMaxWidth);
  delta.heads = config.count("linear_num_value_heads", shape.heads, 1, kMaxWidth);
  const auto keys = static_cast<uint32_t>(0.75 * shape.hidden / delta.groups);
  delta.state = config.count("linear_key_head_dim", std::clamp(keys, 1u, kMaxHead), 1, kMaxHead);
  delta.head_dim = config.count("linear_value_head_dim", 2 * delta.state, 1, 2 * kMaxHead);
  delta.width = config.count("linear_conv_kernel_dim", 4, 1, kMaxConvolution);
  delta.beta_scale = config.flag("linear_allow_neg_eigval", true) ? 2.0f : 1.0f;
  delta.inputs_apart = true;
  delta.gate_norm = {.kind = NormKind::rms, .eps = kGateEps};
  check_delta(config, delta);
  return delta;
}

// [layers] whether each attends; every fourth where nothing says which, and one at least.
std::vector<bool> read_types(const JsonFields& config, size_t count) {
  std::vector<bool> attending = read_attending(config, "layer_types", count);
  for (size_t i = attending.size(); i < count; ++i) attending.push_back(i % 4 == 3);
  if (!config.has("layer_types") && count < 4) attending.back() = true;
  return attending;
}

// A base of null, inside or outside of rope_parameters, says that nothing turns.
bool turns(const JsonFields& config) {
  const char* key = "rope_theta";
  const std::optional<JsonFields> rope = config.object("rope_parameters");
  if (rope && (rope->has(key) || rope->is_null(key))) return rope->has(key);
  return !config.is_null(key);
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 100352,
                                  .hidden = 3840,
                                  .intermediate = 11008,
                                  .layers = 32,
                                  .heads = 30,
                                  .context_tokens = 65536,
                                  .eos = 100257},
                                 plan, {.head_dim = nullptr});
  const float eps = read_eps(config, "rms_norm_eps", 1e-6);
  LayerPlan layer = llama_layer(shape, eps);
  plan.final_norm = layer.attention_norm;
  expect_silu(config);  // the convolution's as well
  LayerPlan attending = layer;
  std::swap(attending.attention_norm, attending.attention_post_norm);
  std::swap(attending.mlp_norm, attending.mlp_post_norm);
  attending.attention.qk_norm = plan.final_norm;
  attending.attention.qk_norm_extent = QkNormExtent::whole;
  attending.attention.qkv_bias = attending.attention.output_bias =
      config.flag("attention_bias", false);
  if (turns(config)) {
    plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  } else {
    attending.attention.rope = -1;
  }
  replace_attention(read_delta(config, shape), layer);
  for (const bool attends : read_types(config, shape.layers)) {
    plan.layers.push_back(attends ? attending : layer);
  }
}

}  // namespace olmo_hybrid_family

// transformers 5 writes the norm after attention under the name of the one before the MLP.
const Family kOlmoHybrid{.model_type = "olmo_hybrid",
                         .class_stem = "OlmoHybrid",
                         .architecture = "",
                         .read = olmo_hybrid_family::read,
                         .tensors = {.names = olmo_hybrid_family::kNames,
                                     .part = "post_attention_layernorm",
                                     .newer_part = "feedforward_layer_norm",
                                     .in_memory = olmo_hybrid_family::kInMemory}};

}  // namespace tenon
