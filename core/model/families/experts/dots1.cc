// dots.llm1: Qwen 3's attention, upper layers of which may have a window, and DeepSeek-V3's router
// after some dense layers.
#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace dots1_family {

constexpr ShapeDefaults kShape{.vocabulary = 152064,
                               .hidden = 4608,
                               .intermediate = 10944,
                               .layers = 62,
                               .heads = 32,
                               .kv_heads = 32};

void read_windows(const JsonFields& config, ModelPlan& plan) {
  const char* key = "sliding_window";
  const uint32_t window = config.is_null(key) ? 0 : config.count(key, 4096, 1, kMaxWidth);
  const uint32_t first = config.count("max_window_layers", 62, 0, kMaxWidth);
  std::vector<bool> sliding(plan.layers.size());
  for (size_t layer = first; layer < sliding.size(); ++layer) sliding[layer] = window > 0;
  if (config.has("layer_types")) sliding = read_sliding_layers(config, plan.layers.size());
  expect_window(config, sliding, window);
  set_windows(sliding, window, plan);
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kShape, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.attention.qk_norm = plan.final_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  const ExpertsPlan experts =
      read_sigmoid_router(config, {.experts = {.width = 1408,
                                               .width_key = "moe_intermediate_size",
                                               .count_key = "n_routed_experts"},
                                   .shared = 0,
                                   // What published files call it.
                                   .scoring = "noaux_tc",
                                   .normalised = false});
  if (experts) {
    set_checked_experts(config, read_sparse_after(config, 0, shape.layers), experts, plan);
  }
  read_windows(config, plan);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  router_from_gguf(fields, kGgufSigmoid, config);
}

}  // namespace dots1_family

const Family kDots1{.model_type = "dots1",
                    .class_stem = "Dots1",
                    .architecture = "dots1",
                    .read = dots1_family::read,
                    .from_gguf = dots1_family::from_gguf,
                    .to_gguf = router_to_gguf};

}  // namespace tenon
