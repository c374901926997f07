// Kimi Linear: layers with a delta rule that decays by the element (arXiv:2510.26692), and every
// few layers one of latent attention in which nothing turns. Layers after the first have the
// experts of DeepSeek-V3.
#include <algorithm>

#include "core/model/families/families.h"
#include "core/model/families/reading/delta_latent.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace kimi_linear_family {

using nlohmann::json;

constexpr TensorName kNames[] = {
    {Role::q_norm, ""},
    {Role::k_norm, ""},
    {Role::ssm_in_q, "self_attn.q_proj"},
    {Role::ssm_in_k, "self_attn.k_proj"},
    {Role::ssm_in_v, "self_attn.v_proj"},
    {Role::ssm_conv_q, "self_attn.q_conv1d"},
    {Role::ssm_conv_k, "self_attn.k_conv1d"},
    {Role::ssm_conv_v, "self_attn.v_conv1d"},
    {Role::ssm_x_low, "self_attn.f_a_proj", "ssm_f_a"},
    {Role::ssm_dt, "self_attn.f_b_proj", "ssm_f_b"},
    {Role::ssm_dt_bias, "self_attn.dt_bias", "ssm_dt.bias", true},
    {Role::ssm_a, "self_attn.A_log", "ssm_a", true},
    {Role::ssm_beta, "self_attn.b_proj", "ssm_beta"},
    {Role::ssm_gate_low, "self_attn.g_a_proj", "ssm_g_a"},
    {Role::ssm_gate_of_low, "self_attn.g_b_proj", "ssm_g_b"},
    {Role::ssm_norm, "self_attn.o_norm"},
    {Role::ssm_out, "self_attn.o_proj", "attn_output"},
    {Role::router_correction, "block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias",
     true},
    {Role::router, "block_sparse_moe.gate"},  // after the name that begins with it
    {Role::expert_gate, "block_sparse_moe.experts.*.w1"},
    {Role::expert_up, "block_sparse_moe.experts.*.w3"},
    {Role::expert_down, "block_sparse_moe.experts.*.w2"},
    {Role::shared_gate, "block_sparse_moe.shared_experts.gate_proj"},
    {Role::shared_up, "block_sparse_moe.shared_experts.up_proj"},
    {Role::shared_down, "block_sparse_moe.shared_experts.down_proj"},
};

constexpr std::pair<std::string_view, std::string_view> kInMemory[] = {
    {".block_sparse_moe.", ".mlp."},
    {"self_attn.f_a_proj", "self_attn.forget_gate.f_a_proj"},
    {"self_attn.f_b_proj", "self_attn.forget_gate.f_b_proj"},
    {"self_attn.dt_bias", "self_attn.forget_gate.dt_bias"},
    {"self_attn.A_log", "self_attn.forget_gate.A_log"},
};

// Heads have sizes of their own, so that the general one counts for nothing.
constexpr ShapeDefaults kShape{.vocabulary = 163840,
                               .hidden = 2304,
                               .intermediate = 9216,
                               .layers = 27,
                               .heads = 32,
                               .head_dim = 2,
                               .context_tokens = 1048576,
                               .bos = 163584,
                               .eos = 163586};

// transformers never turns anything here, whatever config.json says of rotary embedding.
void expect_nothing_turns(const JsonFields& config) {
  if (!config.flag("mla_use_nope", true)) {
    config.faults().unsupported("'mla_use_nope' is false; heads that turn are not built here");
  }
  for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters"}) (void)config.find(key);
}

// Published files have the sizes in an object of their own.
RecurrentPlan read_delta(const JsonFields& config, float eps) {
  const std::optional<JsonFields> own = config.object("linear_attn_config");
  const auto size = [&](const char* general, const char* key, uint32_t fallback, uint32_t most) {
    const uint32_t outer = config.count(general, fallback, 1, most);
    return own ? own->count(key, outer, 1, most) : outer;
  };
  RecurrentPlan delta{.kind = Recurrence::gated_delta, .gate_norm = {}};
  delta.heads = delta.groups = size("linear_num_heads", "num_heads", 32, kMaxWidth);
  delta.state = delta.head_dim = size("linear_head_dim", "head_dim", 128, 32768);
  delta.width = size("linear_conv_kernel_dim", "short_conv_kernel_size", 4, kMaxConvolution);
  finish_element_delta(config, eps, delta);
  delta.step_rank = delta.gate_rank = delta.head_dim;
  return delta;
}

// Sets `layers` of a list that counts from 1.
void set_listed(const JsonFields& own, const char* key, bool attends, std::vector<int>& layers) {
  const json* list = own.find(key);
  for (const json& item : *list) {
    const bool sound = item.is_number_unsigned() && item.get<uint64_t>() >= 1 &&
                       item.get<uint64_t>() <= layers.size();
    if (!sound) {
      return own.faults().invalid(own.name(key) + " has " + describe(item) +
                                  "; expected layers from 1 to " + std::to_string(layers.size()));
    }
    layers[item.get<size_t>() - 1] = attends ? 1 : 0;
  }
}

// [layers] whether each attends: by layer_types, else by the two lists, else every fourth.
std::vector<bool> read_types(const JsonFields& config, size_t count) {
  std::vector<bool> attending = read_attending(config, "layer_types", count);
  if (config.has("layer_types")) attending.resize(count);
  const std::optional<JsonFields> own = config.object("linear_attn_config");
  const auto listed = [&own](const char* key) {
    const json* list = own->find(key);
    return list != nullptr && list->is_array();
  };
  const bool lists = own && listed("full_attn_layers") && listed("kda_layers");
  if (attending.empty() && lists) {
    std::vector<int> layers(count, -1);
    set_listed(*own, "full_attn_layers", true, layers);
    set_listed(*own, "kda_layers", false, layers);
    if (std::ranges::find(layers, -1) != layers.end()) {
      own->faults().invalid(own->name("full_attn_layers") + " and " + own->name("kda_layers") +
                            " do not name each of " + std::to_string(count) + " layers");
    }
    for (const int layer : layers) attending.push_back(layer == 1);
  }
  for (size_t i = attending.size(); i < count; ++i) attending.push_back(i > 0 && i % 4 == 0);
  return attending;
}

ExpertsPlan read_experts(const JsonFields& config) {
  const ExpertsPlan experts = read_router_of_two_names(
      config, {.experts = {.count = 256, .chosen = 8, .width = 1024}, .scale = 2.446f});
  expect_value(config, "moe_router_activation_func", "sigmoid");
  expect_value(config, "topk_method", "noaux_tc");
  return experts;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const char* context = general_or(config, "model_max_length", "max_position_embeddings");
  const Shape shape = read_shape(
      config, kShape, plan, {.kv_heads = nullptr, .head_dim = nullptr, .context_tokens = context});
  plan.tied_embeddings = false;  // transformers ties nothing here, whatever config.json says
  const float eps = read_eps(config, "rms_norm_eps", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  plan.final_norm = layer.attention_norm;
  expect_silu(config);  // the convolution's as well
  expect_nothing_turns(config);
  const LatentAttentionPlan latent = read_latent(config, shape, {.q_rank = 0});
  set_latent(latent, latent_scale(latent, {}), layer);
  layer.attention.rope = -1;
  const RecurrentPlan delta = read_delta(config, eps);
  add_layers(read_types(config, shape.layers), layer, delta, plan);
  set_checked_experts(config, read_mlp_types(config, 1, shape.layers), read_experts(config), plan);
}

}  // namespace kimi_linear_family

// transformers 5 writes the dense layers' MLPs under the name of the experts.
const Family kKimiLinear{.model_type = "kimi_linear",
                         .class_stem = "KimiLinear",
                         .architecture = "kimi-linear",
                         .read = kimi_linear_family::read,
                         .tensors = {.names = kimi_linear_family::kNames,
                                     .part = ".mlp.",
                                     .newer_part = ".block_sparse_moe.",
                                     .in_memory = kimi_linear_family::kInMemory},
                         .gguf_latent = true,
                         .from_gguf = delta_latent_from_gguf,
                         .to_gguf = delta_latent_to_gguf};

}  // namespace tenon
