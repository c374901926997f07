// OLMo 2: norms after attention and MLP, none before them; q and k are normed as a whole. OLMo 3
// has a window in three of four layers, whose rotation is not scaled.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace olmo2_family {

constexpr TensorName kNames[] = {
    {Role::attention_norm, ""},
    {Role::mlp_norm, ""},
    {Role::attention_post_norm, "post_attention_layernorm"},
    {Role::mlp_post_norm, "post_feedforward_layernorm"},
};

LayerPlan read_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  std::swap(layer.attention_norm, layer.attention_post_norm);
  std::swap(layer.mlp_norm, layer.mlp_post_norm);
  plan.final_norm = layer.attention.qk_norm = layer.attention_post_norm;
  layer.attention.qk_norm_extent = QkNormExtent::whole;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  return layer;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.vocabulary = 50304, .eos = 50279}, plan);
  const LayerPlan layer = read_layer(config, shape, plan);
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void read_olmo3(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.vocabulary = 50304, .eos = 50279}, plan);
  plan.layers.assign(shape.layers, read_layer(config, shape, plan));
  const RopeDefaults usual{.theta = 500000.0};
  RopeDefaults of_windows = usual;
  of_windows.theta_key = nullptr;
  read_two_ropes(config, usual, of_windows, shape.head_dim, plan);
  std::vector<bool> sliding = read_sliding_layers(config, shape.layers);
  for (size_t i = sliding.size(); i < shape.layers; ++i) sliding.push_back((i + 1) % 4 != 0);
  const char* key = "sliding_window";
  set_windows(sliding, config.is_null(key) ? 0 : config.count(key, 4096, 1, kMaxWidth), plan);
  for (size_t i = 0; i < shape.layers; ++i) plan.layers[i].attention.rope = sliding[i] ? 1 : 0;
}

// Both generations have one name in such files; the newer one has windows.
void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  windows_from_gguf(fields, config);
  if (fields.count(".attention.sliding_window", 0, 0, kMaxWidth) == 0) return;
  config["model_type"] = "olmo3";
  nlohmann::ordered_json full = {{"rope_type", "default"}};
  if (config["rope_scaling"].is_object()) full.update(config["rope_scaling"]);
  const double theta = config["rope_theta"];
  full["rope_theta"] = theta;
  const double of_windows = fields.number(".rope.freq_base_swa", theta, 1e-6, 1e30);
  config["rope_parameters"] = {
      {"full_attention", full},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", of_windows}}}};
  config.erase("rope_scaling");
  config.erase("rope_theta");
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const double of_windows = plan.ropes.back().theta;
  if (of_windows == plan.ropes.front().theta) return;
  out.add_real(architecture + ".rope.freq_base_swa", static_cast<float>(of_windows));
}

}  // namespace olmo2_family

const Family kOlmo2{.model_type = "olmo2",
                    .class_stem = "Olmo2",
                    .architecture = "olmo2",
                    .read = olmo2_family::read,
                    .tensors = {.names = olmo2_family::kNames},
                    .from_gguf = olmo2_family::from_gguf};
const Family kOlmo3{.model_type = "olmo3",
                    .class_stem = "Olmo3",
                    .architecture = "olmo2",
                    .read = olmo2_family::read_olmo3,
                    .tensors = {.names = olmo2_family::kNames},
                    .from_gguf = olmo2_family::from_gguf,
                    .to_gguf = olmo2_family::to_gguf};

}  // namespace tenon
