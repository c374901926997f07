// Mamba-2: as Mamba, with heads that decay as one and a norm of the gated output.
#include "core/model/families/families.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace mamba2_family {

constexpr TensorName kNames[] = {
    {Role::embedding, "backbone.embeddings"},
    {Role::final_norm, "backbone.norm_f"},
    {Role::attention_norm, "norm"},
    {Role::ssm_in, "mixer.in_proj"},
    {Role::ssm_conv, "mixer.conv1d"},
    {Role::ssm_dt_bias, "mixer.dt_bias"},
    {Role::ssm_a, "mixer.A_log"},
    {Role::ssm_d, "mixer.D"},
    {Role::ssm_norm, "mixer.norm"},
    {Role::ssm_out, "mixer.out_proj"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const uint32_t layers = read_plain_shape(
      config, {.vocabulary = 32768, .hidden = 4096, .layers = 64, .bos = 0, .eos = 2}, plan);
  const float eps = read_eps(config, "layer_norm_epsilon", 1e-5);
  const LayerPlan layer = recurrent_layer(read_mamba2(config, plan.hidden, eps, {}, {}), eps);
  expect_silu(config);
  plan.final_norm = layer.attention_norm;
  plan.layers.assign(layers, layer);
  (void)config.find("time_step_rank");  // Mamba's; nothing of Mamba-2 has it
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  mamba2_from_gguf(fields, {}, config);
  config["use_conv_bias"] = fields.has_tensor("blk.0.ssm_conv1d.bias");
  config["use_bias"] = fields.has_tensor("blk.0.ssm_in.bias");
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  mamba2_to_gguf(plan.layers.front().recurrent, architecture, out);
}

}  // namespace mamba2_family

const Family kMamba2{.model_type = "mamba2",
                     .class_stem = "Mamba2",
                     .architecture = "mamba2",
                     .read = mamba2_family::read,
                     .tensors = {.names = mamba2_family::kNames, .base = "backbone."},
                     .gguf_attention = GgufAttention::none,
                     .gguf_eps_key = "layer_norm_epsilon",
                     .from_gguf = mamba2_family::from_gguf,
                     .to_gguf = mamba2_family::to_gguf};

}  // namespace tenon
