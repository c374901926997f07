// Granite 4: layers of Granite that attend or run a Mamba-2 mixer, each with a gated MLP and, in
// some models, experts beside it.
#include <algorithm>

#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"
#include "core/model/families/reading/granite.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace granite_hybrid_family {

using nlohmann::json;

constexpr TensorName kNames[] = {
    {Role::ssm_in, "mamba.in_proj"},
    {Role::ssm_conv, "mamba.conv1d"},
    {Role::ssm_dt_bias, "mamba.dt_bias"},
    {Role::ssm_a, "mamba.A_log"},
    {Role::ssm_d, "mamba.D"},
    {Role::ssm_norm, "mamba.norm"},
    {Role::ssm_out, "mamba.out_proj"},
    {Role::gate_up, "shared_mlp.input_linear"},
    {Role::down, "shared_mlp.output_linear"},
};
constexpr FamilyTensors kTensors = [] {
  FamilyTensors tensors = kGraniteExpertTensors;
  tensors.names = kNames;
  tensors.expert_names = kGraniteExpertNames;
  return tensors;
}();
constexpr Mamba2Defaults kDefaults{.heads = 128, .head_dim = 0, .state = 256, .groups = 1};

// The MLP's width is that of what is shared; intermediate_size is an expert's.
ExpertsPlan read_experts_beside(const JsonFields& config, uint32_t mlp_width) {
  const uint32_t width = config.count("intermediate_size", 11008, 1, kMaxWidth);
  if (config.count("num_local_experts", 8, 0, kMaxWidth) > 0) {
    return read_granite_experts(config, width, mlp_width);
  }
  (void)config.find("num_experts_per_tok");
  return {};
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.intermediate = 1024, .bos = 1, .eos = 2}, plan,
                                 {.intermediate = "shared_intermediate_size"});
  const float eps = read_eps(config, "rms_norm_eps", 1e-6);
  LayerPlan layer = llama_layer(shape, eps);
  layer.residual_scale = read_multiplier(config, "residual_multiplier");
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.attention.scale = read_multiplier(config, "attention_multiplier");
  layer.attention.rope = config.text("position_embedding_type", "nope") == "rope" ? 0 : -1;
  expect_silu(config);
  layer.experts = read_experts_beside(config, shape.intermediate);
  if (layer.experts) layer.mlp.width = layer.experts.width;
  plan.embedding_scale = read_multiplier(config, "embedding_multiplier");
  plan.logit_scale = 1.0f / read_multiplier(config, "logits_scaling");
  plan.final_norm = layer.attention_norm;
  if (layer.attention.rope == 0) {
    plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  }
  const RecurrentPlan recurrent =
      read_mamba2(config, shape.hidden, eps, kDefaults, kHybridMamba2Keys);
  const char* key = config.has("layers_block_type") ? "layers_block_type" : "layer_types";
  std::vector<bool> attending = read_attending(config, key, shape.layers);
  attending.resize(shape.layers);
  add_layers(attending, layer, recurrent, plan);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  multipliers_from_gguf(fields, config);
  const json types = config["layer_types"];
  // A model all of whose layers attend need not say what others would have.
  const bool recurs = std::ranges::find(types, json("linear_attention")) != types.end();
  if (recurs || fields.has(".ssm.inner_size")) mamba2_from_gguf(fields, kHybridMamba2Keys, config);
  config["shared_intermediate_size"] = config["intermediate_size"];
  config["num_local_experts"] = 0;
  if (fields.count(".expert_count", 0, 0, kMaxWidth) > 0) {
    experts_from_gguf(
        fields, {.count = "num_local_experts", .shared_width = "shared_intermediate_size"}, config);
  }
  const bool turns = fields.flag(".rope.scaling.finetuned", false);
  config["position_embedding_type"] = turns ? nlohmann::ordered_json("rope") : nullptr;
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    if (types[i] == "full_attention") {
      config["attention_bias"] = fields.has_tensor(layer + "attn_q.bias");
    } else {
      config["mamba_conv_bias"] = fields.has_tensor(layer + "ssm_conv1d.bias");
      config["mamba_proj_bias"] = fields.has_tensor(layer + "ssm_in.bias");
    }
  }
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  multipliers_to_gguf(plan, architecture, out);
  const RecurrentPlan* const mamba = first_recurrence(plan);
  if (mamba != nullptr) mamba2_to_gguf(*mamba, architecture, out);
  out.add_flag(architecture + ".rope.scaling.finetuned", !plan.ropes.empty());
  if (plan.layers.front().experts) experts_to_gguf(plan, architecture, out);
}

}  // namespace granite_hybrid_family

const Family kGraniteHybrid{.model_type = "granitemoehybrid",
                            .class_stem = "GraniteMoeHybrid",
                            .architecture = "granitehybrid",
                            .read = granite_hybrid_family::read,
                            .tensors = granite_hybrid_family::kTensors,
                            .gguf_pairs_rows = true,
                            .gguf_attention = GgufAttention::in_some_layers,
                            .from_gguf = granite_hybrid_family::from_gguf,
                            .to_gguf = granite_hybrid_family::to_gguf};

}  // namespace tenon
