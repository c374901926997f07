// Falcon-H1: Llama's layers with a Mamba-2 mixer next to attention. Both read one norm and are
// added to the stream, and factors stand at most products.
#include <algorithm>
#include <array>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace falcon_h1_family {

using nlohmann::json;

constexpr Mamba2Keys kKeys = [] {
  Mamba2Keys keys = kHybridMamba2Keys;
  keys.inner = "mamba_d_ssm";
  return keys;
}();
constexpr Mamba2Defaults kDefaults{
    .heads = 128, .head_dim = 0, .state = 256, .groups = 1, .inner = 1024};

// Bamba's; GGUF files leave out what kind of a tensor the norm before the MLP is.
constexpr auto kNames = [] {
  auto names = std::to_array(kBambaNames);
  for (TensorName& name : names) {
    if (name.role == Role::mlp_norm)
      name = {name.role, "pre_ff_layernorm.weight", "ffn_norm", true};
  }
  return names;
}();

// A list of `count` factors; all are 1 where it is not there.
std::vector<float> read_multipliers(const JsonFields& config, const char* key, size_t count) {
  std::vector<float> factors(count, 1.0f);
  const json* list = config.find(key);
  if (list == nullptr) return factors;
  const auto is_factor = [](const json& item) {
    return item.is_number() && item.get<double>() >= 1e-6 && item.get<double>() <= 1e30;
  };
  if (!list->is_array() || list->size() != count || !std::ranges::all_of(*list, is_factor)) {
    config.faults().invalid(config.name(key) + " is " + describe(*list) + "; expected a list of " +
                            std::to_string(count) + " factors");
    return factors;
  }
  for (size_t i = 0; i < count; ++i) factors[i] = static_cast<float>((*list)[i].get<double>());
  return factors;
}

RecurrentPlan read_mixer(const JsonFields& config, uint32_t hidden, float eps) {
  RecurrentPlan mamba = read_mamba2(config, hidden, eps, kDefaults, kKeys);
  mamba.norm_first = config.truth("mamba_norm_before_gate", true);
  if (!config.flag("mamba_rms_norm", false)) {
    mamba.gate_norm = {};
    mamba.norm_first = false;
  }
  mamba.output_bias = config.flag("projectors_bias", false);
  const float in = read_multiplier(config, "ssm_in_multiplier");
  const std::vector<float> by = read_multipliers(config, "ssm_multipliers", 5);
  mamba.scales = {.gate = in * by[0],
                  .x = in * by[1],
                  .b = in * by[2],
                  .c = in * by[3],
                  .step = in * by[4],
                  .output = read_multiplier(config, "ssm_out_multiplier"),
                  .input = in};
  return mamba;
}

// q and k have attention's factor each, and k one more. Factors come before the products, so that
// they are not on the biases.
void scale_attention(const JsonFields& config, SelfAttentionPlan& attention) {
  const float in = read_multiplier(config, "attention_in_multiplier");
  attention.scale *= in * in * read_multiplier(config, "key_multiplier");
  attention.output_scale = in * read_multiplier(config, "attention_out_multiplier");
  attention.input_scale = in;
  attention.qkv_bias = attention.output_bias = config.flag("attention_bias", false);
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 128000,
                                  .intermediate = 14336,
                                  .kv_heads = 8,
                                  .context_tokens = 8192,
                                  .bos = 1,
                                  .eos = 2},
                                 plan);
  const float eps = read_eps(config, "rms_norm_eps", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  plan.final_norm = layer.attention_norm;
  expect_silu(config);  // the convolution's as well
  scale_attention(config, layer.attention);
  const std::vector<float> of_mlp = read_multipliers(config, "mlp_multipliers", 2);
  layer.mlp.bias = config.flag("mlp_bias", false);
  layer.mlp.gate_scale = of_mlp[0];
  layer.mlp.scale = of_mlp[1];
  layer.recurrent = read_mixer(config, shape.hidden, eps);
  plan.embedding_scale = read_multiplier(config, "embedding_multiplier");
  plan.logit_scale = read_multiplier(config, "lm_head_multiplier");
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

// Converters multiply the weights by all factors. Programs that run their files have the norm after
// the gate.
void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  if (fields.has_tensor("blk.0.attn_q.bias")) {
    log(LogLevel::warning, "model",
        "tensors 'blk.N.attn_q.bias', 'attn_k.bias' and 'attn_v.bias' of falcon-h1 files may be "
        "multiplied: llama.cpp's converter has 'attention_in_multiplier' on them, which is meant "
        "for the weights alone, and the file does not say what it was; unless it was 1, convert "
        "the folder again without it");
  }
  mamba2_from_gguf(fields, kKeys, config);
  config["mamba_conv_bias"] = fields.has_tensor("blk.0.ssm_conv1d.bias");
  config["mamba_proj_bias"] = fields.has_tensor("blk.0.ssm_in.bias");
  config["projectors_bias"] = fields.has_tensor("blk.0.ssm_out.bias");
  config["mamba_rms_norm"] = fields.has_tensor("blk.0.ssm_norm.weight");
  config["mamba_norm_before_gate"] = false;
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  mamba2_to_gguf(plan.layers.front().recurrent, architecture, out);
}

}  // namespace falcon_h1_family

const Family kFalconH1{.model_type = "falcon_h1",
                       .class_stem = "FalconH1",
                       .architecture = "falcon-h1",
                       .read = falcon_h1_family::read,
                       .tensors = {.names = falcon_h1_family::kNames},
                       .from_gguf = falcon_h1_family::from_gguf,
                       .to_gguf = falcon_h1_family::to_gguf};

}  // namespace tenon
