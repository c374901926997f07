// ERNIE 4.5 with experts: neighbours turn together; experts are chosen by the softmax with a
// correction, and have shared ones next to them.
#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace ernie_moe_family {

constexpr TensorName kNames[] = {
    {Role::router_correction, "mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", true,
     true},
};
constexpr ShapeDefaults kShape{.vocabulary = 103424,
                               .hidden = 2560,
                               .intermediate = 12288,
                               .layers = 28,
                               .heads = 20,
                               .kv_heads = 4,
                               .context_tokens = 131072,
                               .bos = 1,
                               .eos = 2,
                               .tied = true};

// What factors are divided by is at least this, which matters where all chosen are next to nothing.
void expect_small_floor(const JsonFields& config) {
  const char* key = "moe_norm_min";
  if (config.number(key, 1e-12) <= 1e-6) return;
  config.faults().unsupported(config.name(key) + " is " + describe(*config.find(key)) +
                              "; factors are divided by their sum, without such a floor");
}

ExpertsPlan read_experts_of(const JsonFields& config) {
  ExpertsPlan experts = read_experts(config, {.count = 64,
                                              .chosen = 6,
                                              .width = 1536,
                                              .width_key = "moe_intermediate_size",
                                              .count_key = "moe_num_experts",
                                              .chosen_key = "moe_k"});
  experts.correction = experts.normalised = true;
  expect_small_floor(config);
  read_shared_experts(config, "moe_num_shared_experts", 2, experts);
  experts.shared_bias = config.flag("use_bias", false);
  return experts;
}

// [layers]; every `moe_layer_interval`-th from the first to the last.
std::vector<bool> read_sparse(const JsonFields& config, uint32_t layers) {
  const uint32_t first = config.count("moe_layer_start_index", 1, 0, kMaxLayers);
  const uint32_t interval = config.count("moe_layer_interval", 1, 1, kMaxLayers);
  const double last = config.number("moe_layer_end_index", -1);
  std::vector<bool> sparse(layers);
  for (uint32_t i = 0; i < layers; ++i) {
    sparse[i] = (i + 1) % interval == 0 && i >= first && (last == -1 || i <= last);
  }
  return sparse;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kShape, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  const bool bias = config.flag("use_bias", false);
  layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = plan.head_bias = bias;
  plan.final_norm = layer.attention_norm;
  plan.ropes = {
      read_rope(config, {.theta = 5e5, .pairs = true}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  set_checked_experts(config, read_sparse(config, shape.layers), read_experts_of(config), plan);
}

// What files say of the shared experts' width is not so.
void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields,
                    {.count = "moe_num_experts",
                     .width = "moe_intermediate_size",
                     .shared_count = "moe_num_shared_experts",
                     .dense = "moe_layer_start_index"},
                    config);
  config["moe_k"] = config["num_experts_per_tok"];
  config.erase("num_experts_per_tok");
  config["moe_layer_interval"] = fields.count(".interleave_moe_layer_step", 1, 1, kMaxLayers);
  for (uint32_t i = 0; i < config["num_hidden_layers"].get<uint32_t>(); ++i) {
    const bool sparse = fields.has_tensor("blk." + std::to_string(i) + ".ffn_gate_inp.weight");
    if (sparse) config["moe_layer_end_index"] = i;
  }
  config["use_bias"] = config["attention_bias"];
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  router_to_gguf(plan, architecture, out);
  uint32_t interval = 0, last = 0;
  for (uint32_t i = 0; i < plan.layers.size(); ++i) {
    if (!plan.layers[i].experts) continue;
    if (last > 0) interval = i + 1 - last;
    last = i + 1;
  }
  out.add_count(architecture + ".interleave_moe_layer_step", std::max(interval, 1u));
}

}  // namespace ernie_moe_family

const Family kErnie45Moe{.model_type = "ernie4_5_moe",
                         .class_stem = "Ernie4_5_Moe",
                         .architecture = "ernie4_5-moe",
                         .read = ernie_moe_family::read,
                         .tensors = {.names = ernie_moe_family::kNames,
                                     .part = "mlp.moe_statics.",
                                     .newer_part = "mlp.gate.moe_statics."},
                         .from_gguf = ernie_moe_family::from_gguf,
                         .to_gguf = ernie_moe_family::to_gguf};

}  // namespace tenon
