// Ling 3 (bailing_hybrid): layers with a delta rule that decays by the element (arXiv:2510.26692),
// whose decays and gates are one product each, and as the last of every few layers one of latent
// attention with a gate for each head. Layers after the first have the experts of DeepSeek-V3.
#include <algorithm>

#include "core/model/checkpoint/gguf_config.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/delta_latent.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace bailing_family {

constexpr TensorName kNames[] = {
    {Role::embedding, "model.word_embeddings"},
    {Role::k, ""},
    {Role::v, ""},
    {Role::q_norm, ""},
    {Role::k_norm, ""},
    {Role::q, "attention.q_proj"},
    {Role::q_a, "attention.q_a_proj"},
    {Role::q_a_norm, "attention.q_a_layernorm"},
    {Role::q_b, "attention.q_b_proj"},
    {Role::kv_a, "attention.kv_a_proj_with_mqa"},
    {Role::kv_a_norm, "attention.kv_a_layernorm"},
    {Role::kv_b, "attention.kv_b_proj"},
    {Role::output_gate, "attention.g_proj", "attn_gate"},
    {Role::output, "attention.dense"},
    {Role::ssm_in_q, "attention.q_proj"},
    {Role::ssm_in_k, "attention.k_proj"},
    {Role::ssm_in_v, "attention.v_proj"},
    {Role::ssm_conv_q, "attention.q_conv1d"},
    {Role::ssm_conv_k, "attention.k_conv1d"},
    {Role::ssm_conv_v, "attention.v_conv1d"},
    {Role::ssm_in_step, "attention.f_proj", "ssm_f_a"},
    {Role::ssm_dt_bias, "attention.dt_bias", "ssm_dt.bias", true},
    {Role::ssm_a, "attention.A_log", "ssm_a", true},
    {Role::ssm_beta, "attention.b_proj", "ssm_beta"},
    {Role::ssm_in_gate, "attention.g_proj", "ssm_g_a"},
    {Role::ssm_norm, "attention.o_norm"},
    {Role::ssm_out, "attention.dense", "attn_output"},
    {Role::router_correction, "mlp.gate.expert_bias", "exp_probs_b.bias", true},
};

constexpr std::pair<std::string_view, std::string_view> kInMemory[] = {
    {"model.word_embeddings.", "model.embed_tokens."},
    {".attention.dense.", ".self_attn.o_proj."},
    {".attention.f_proj.", ".self_attn.forget_gate.f_proj."},
    {".attention.dt_bias", ".self_attn.forget_gate.dt_bias"},
    {".attention.A_log", ".self_attn.forget_gate.A_log"},
    {".attention.", ".self_attn."},
    {"mlp.gate.expert_bias", "mlp.gate.e_score_correction_bias"},
};

// Heads have sizes of their own, so that the general one counts for nothing.
constexpr ShapeDefaults kShape{.vocabulary = 157184,
                               .hidden = 2560,
                               .intermediate = 6144,
                               .layers = 42,
                               .heads = 32,
                               .head_dim = 2,
                               .context_tokens = 262144,
                               .eos = 156895};

// transformers sets "head_dim" to the part of attention's heads that turns when it saves a folder,
// and has the delta rule's sizes in keys of their own next to it, which count where they are there.
RecurrentPlan read_delta(const JsonFields& config, uint32_t heads, float eps) {
  const auto size = [&](const char* own, const char* published, uint32_t fallback, uint32_t most) {
    (void)config.find(published);
    return config.count(config.has(own) ? own : published, fallback, 1, most);
  };
  RecurrentPlan delta{.kind = Recurrence::gated_delta, .gate_norm = {}};
  delta.heads = delta.groups = config.count("linear_num_heads", heads, 1, kMaxWidth);
  delta.state = delta.head_dim = size("linear_head_dim", "head_dim", 128, 32768);
  delta.width = size("linear_conv_kernel_dim", "short_conv_kernel_size", 4, kMaxConvolution);
  finish_element_delta(config, eps, delta);
  const auto bound = static_cast<float>(config.number("kda_lower_bound", -5.0));
  if (config.flag("kda_safe_gate", true)) {
    delta.strongest_decay = bound;
    if (!(bound < 0.0f)) {
      config.faults().invalid("'kda_lower_bound' is not below 0, so that nothing would decay");
      delta.strongest_decay = -5.0f;
    }
  }
  return delta;
}

// [layers] whether each attends: by layer_types, else the last of each group.
std::vector<bool> read_types(const JsonFields& config, uint32_t layers) {
  std::vector<bool> attending = read_attending(config, "layer_types", layers);
  const uint32_t group = config.count("layer_group_size", 6, 1, kMaxLayers);
  if (config.has("layer_types")) attending.resize(layers);
  for (auto i = static_cast<uint32_t>(attending.size()); i < layers; ++i) {
    attending.push_back((i + 1) % group == 0);
  }
  return attending;
}

ExpertsPlan read_experts(const JsonFields& config) {
  const ExpertsPlan experts =
      read_router_of_two_names(config, {.experts = {.count = 512, .chosen = 8, .width = 768},
                                        .scale = 2.5f,
                                        .groups = 8,
                                        .groups_chosen = 4});
  for (const char* scoring : {"scoring_func", "score_function"}) {
    expect_value(config, scoring, "sigmoid");
  }
  return experts;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const char* context = general_or(config, "model_max_length", "max_position_embeddings");
  const Shape shape = read_shape(
      config, kShape, plan, {.kv_heads = nullptr, .head_dim = nullptr, .context_tokens = context});
  plan.tied_embeddings = false;  // transformers ties nothing here, whatever config.json says
  const float eps = read_eps(config, "rms_norm_eps", 1e-6);
  LayerPlan layer = llama_layer(shape, eps);
  plan.final_norm = layer.attention_norm;
  expect_silu(config);  // the convolution's as well
  const LatentAttentionPlan latent = read_latent(config, shape, {.q_rank = 0});
  // The reference fills its rotary settings before it reads the context's other name.
  const uint32_t usual =
      config.count("max_position_embeddings", kShape.context_tokens, 1, kMaxWidth);
  plan.ropes = {read_rope(config, {.theta = 6e6, .pairs = true, .usual_context_tokens = usual},
                          latent.rope_dim, plan.context_tokens)};
  set_latent(latent, latent_scale(latent, plan.ropes.front().scaling), layer);
  layer.attention.output_gate = layer.attention.gate_by_head = true;
  const RecurrentPlan delta = read_delta(config, shape.heads, eps);
  add_layers(read_types(config, shape.layers), layer, delta, plan);
  set_checked_experts(config, read_mlp_types(config, 2, shape.layers), read_experts(config), plan);
}

// Limits on gates have a key, and no model that runs has any.
void expect_no_limits(const GgufFields& fields, const char* key, uint32_t layers) {
  const std::vector<double> limits = fields.numbers(key, layers);
  if (std::ranges::all_of(limits, [](double limit) { return limit == 0.0; })) return;
  fields.faults().unsupported(fields.name(key) + " is " + fields.find(key)->describe() +
                              "; limits on gates are not built here");
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  delta_latent_from_gguf(fields, config);
  config["kda_safe_gate"] = fields.flag(".kda.safe_gate", true);
  config["kda_lower_bound"] = shortest_double(
      static_cast<float>(fields.number(".kda.gate_lower_bound", -5.0, -1e30, 1e30)));
  const auto layers = config["num_hidden_layers"].get<uint32_t>();
  for (const char* key : {".swiglu_clamp_exp", ".swiglu_clamp_shexp"}) {
    expect_no_limits(fields, key, layers);
  }
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  delta_latent_to_gguf(plan, architecture, out);
  const RecurrentPlan* const delta = first_recurrence(plan);
  if (delta == nullptr) return;
  const bool bounded = delta->strongest_decay < 0.0f;
  out.add_flag(architecture + ".kda.safe_gate", bounded);
  if (bounded) out.add_real(architecture + ".kda.gate_lower_bound", delta->strongest_decay);
}

}  // namespace bailing_family

const Family kBailingHybrid{
    .model_type = "bailing_hybrid",
    .class_stem = "BailingHybrid",
    .architecture = "bailingmoe3",
    .read = bailing_family::read,
    .tensors = {.names = bailing_family::kNames, .in_memory = bailing_family::kInMemory},
    .gguf_latent = true,
    .from_gguf = bailing_family::from_gguf,
    .to_gguf = bailing_family::to_gguf};

}  // namespace tenon
