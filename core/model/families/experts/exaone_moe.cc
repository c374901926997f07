// K-EXAONE: EXAONE 4's attention, whose layers without a window do not turn where others have one,
// and DeepSeek-V3's router after some dense layers.
#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace exaone_moe_family {

constexpr TensorName kNames[] = {
    {Role::router_correction, "mlp.e_score_correction_bias", "exp_probs_b.bias", true},
};
constexpr ShapeDefaults kShape{.vocabulary = 102400,
                               .intermediate = 16384,
                               .kv_heads = 32,
                               .context_tokens = 2048,
                               .bos = 1,
                               .eos = 53};

// [layers]; "LLLG" repeats, a number n leaves every n-th layer without a window.
std::vector<bool> read_pattern(const JsonFields& config, size_t layers) {
  const char* key = "sliding_window_pattern";
  const nlohmann::json* value = config.find(key);
  std::vector<bool> sliding(layers);
  if (value != nullptr && value->is_string()) {
    const auto& letters = value->get_ref<const std::string&>();
    if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos) {
      config.faults().invalid(config.name(key) + " is " + describe(*value) +
                              "; expected a number, or letters L and G");
      return sliding;
    }
    for (size_t i = 0; i < layers; ++i) sliding[i] = letters[i % letters.size()] == 'L';
    return sliding;
  }
  const uint32_t period = config.count(key, 4, 1, kMaxLayers);
  for (size_t i = 0; i < layers; ++i) sliding[i] = (i + 1) % period != 0;
  return sliding;
}

void read_windows(const JsonFields& config, ModelPlan& plan) {
  const char* key = "sliding_window";
  const uint32_t window = config.is_null(key) ? 0 : config.count(key, 4096, 1, kMaxWidth);
  const std::vector<bool> pattern = read_pattern(config, plan.layers.size());
  const std::vector<bool> types = read_sliding_layers(config, plan.layers.size());
  const std::vector<bool>& sliding = types.empty() ? pattern : types;
  if (window == 0) return;
  set_windows(sliding, window, plan);
  for (LayerPlan& layer : plan.layers) {
    if (layer.attention.window_tokens == 0) layer.attention.rope = -1;
  }
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kShape, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.attention.qk_norm = plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  const ExpertsPlan experts = read_sigmoid_router(
      config,
      {.experts = {.count = 64, .chosen = 8, .width = 1024, .width_key = "moe_intermediate_size"},
       .shared_key = "num_shared_experts",
       .scale = 2.5f});
  set_checked_experts(config, read_mlp_types(config, 1, shape.layers), experts, plan);
  read_windows(config, plan);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields,
                    {.width = "moe_intermediate_size",
                     .normalised = "norm_topk_prob",
                     .scale = "routed_scaling_factor",
                     .groups = "n_group",
                     .groups_chosen = "topk_group",
                     .shared_count = "num_shared_experts",
                     .types = "mlp_layer_types",
                     .gating = kGgufSigmoid},
                    config);
}

}  // namespace exaone_moe_family

const Family kExaoneMoe{.model_type = "exaone_moe",
                        .class_stem = "ExaoneMoe",
                        .architecture = "exaone-moe",
                        .read = exaone_moe_family::read,
                        .tensors = {.names = exaone_moe_family::kNames,
                                    .part = "mlp.e_score_correction_bias",
                                    .newer_part = "mlp.gate.e_score_correction_bias"},
                        .from_gguf = exaone_moe_family::from_gguf,
                        .to_gguf = router_to_gguf};

}  // namespace tenon
