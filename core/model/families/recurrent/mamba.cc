// Mamba: layers that are a norm and a selective scan, without attention, MLP or positions.
#include "core/model/families/families.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace mamba_family {

constexpr TensorName kNames[] = {
    {Role::embedding, "backbone.embeddings"},
    {Role::final_norm, "backbone.norm_f"},
    {Role::attention_norm, "norm"},
    {Role::ssm_in, "mixer.in_proj"},
    {Role::ssm_conv, "mixer.conv1d"},
    {Role::ssm_x, "mixer.x_proj"},
    {Role::ssm_dt, "mixer.dt_proj"},
    {Role::ssm_a, "mixer.A_log"},
    {Role::ssm_d, "mixer.D"},
    {Role::ssm_out, "mixer.out_proj"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const uint32_t layers = read_plain_shape(
      config, {.vocabulary = 50280, .hidden = 768, .layers = 32, .bos = 0, .eos = 0, .tied = true},
      plan);
  const RecurrentPlan recurrent = read_mamba(config, plan.hidden, {.inner = "intermediate_size"});
  expect_silu(config);
  const LayerPlan layer = recurrent_layer(recurrent, read_eps(config, "layer_norm_epsilon", 1e-5));
  plan.final_norm = layer.attention_norm;
  plan.layers.assign(layers, layer);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  mamba_from_gguf(fields, {}, config);
  config["use_conv_bias"] = fields.has_tensor("blk.0.ssm_conv1d.bias");
  config["use_bias"] = fields.has_tensor("blk.0.ssm_in.bias");
  if (fields.flag(".ssm.dt_b_c_rms", false)) {
    fields.faults().unsupported(fields.name(".ssm.dt_b_c_rms") +
                                " is true; norms of Δ, B and C are not built");
  }
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  mamba_to_gguf(plan.layers.front().recurrent, architecture, out);
}

}  // namespace mamba_family

const Family kMamba{.model_type = "mamba",
                    .class_stem = "Mamba",
                    .architecture = "mamba",
                    .read = mamba_family::read,
                    .tensors = {.names = mamba_family::kNames, .base = "backbone."},
                    .gguf_attention = GgufAttention::none,
                    .gguf_eps_key = "layer_norm_epsilon",
                    .from_gguf = mamba_family::from_gguf,
                    .to_gguf = mamba_family::to_gguf};

}  // namespace tenon
