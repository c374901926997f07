// MiMo-V2-Flash: V of another width than K, and a factor on it; layers with a window have twice the
// KV heads, sinks and a rotary base of their own; DeepSeek-V3's router without a shared expert.
#include <cmath>

#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_config.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace mimo_family {

constexpr TensorName kNames[] = {
    {Role::sinks, "self_attn.attention_sink_bias", "attn_sinks.weight", true},
};
constexpr ShapeDefaults kShape{.vocabulary = 152576,
                               .intermediate = 16384,
                               .layers = 48,
                               .heads = 64,
                               .kv_heads = 4,
                               .head_dim = 192,
                               .context_tokens = 131072,
                               .bos = 1};
constexpr RopeDefaults kFullRope{
    .theta = 5e6, .partial = PartialRotation::by_key, .partial_factor = 0.334};
constexpr RopeDefaults kSlidingRope{
    .theta = 1e4, .partial = PartialRotation::by_key, .partial_factor = 0.334};

LayerPlan read_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  plan.final_norm = layer.attention_norm;
  layer.attention.v_head_dim = config.count("v_head_dim", 128, 1, kMaxWidth);
  if (layer.attention.v_head_dim == shape.head_dim) layer.attention.v_head_dim = 0;
  layer.attention.qkv_bias = config.flag("attention_bias", false);
  // Where it is missing it is this, where it is null there is none.
  const char* scale = "attention_value_scale";
  if (!config.is_null(scale)) {
    layer.attention.v_scale = static_cast<float>(config.number(scale, 0.707));
  }
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  return layer;
}

std::vector<bool> read_sliding(const JsonFields& config, uint32_t layers) {
  std::vector<bool> sliding = read_sliding_layers(config, layers);
  for (uint32_t i = 0; i < layers && !config.has("layer_types"); ++i) {
    sliding.push_back(i != 0 && (i + 1) % 6 != 0);
  }
  sliding.resize(layers, false);
  return sliding;
}

// sliding_window_size counts the tokens before the one that attends.
void read_windows(const JsonFields& config, const Shape& shape, const std::vector<bool>& sliding,
                  ModelPlan& plan) {
  const uint32_t own = config.count("sliding_window", 129, 1, kMaxWidth);
  const uint32_t before = config.count("sliding_window_size", 0, 0, kMaxWidth - 1);
  set_windows(sliding, config.has("sliding_window_size") ? before + 1 : own, plan);
  for (size_t i = 0; i < sliding.size(); ++i) {
    SelfAttentionPlan& attention = plan.layers[i].attention;
    attention.sinks = sliding[i];
    if (!sliding[i]) continue;
    if (shape.heads % (uint64_t{2} * shape.kv_heads) != 0) {
      return config.faults().invalid(
          "layers with a window have twice the KV heads, of which " + std::to_string(shape.heads) +
          " heads are no multiple; 'num_key_value_heads' is " + std::to_string(shape.kv_heads));
    }
    attention.kv_heads *= 2;
  }
}

// Keys of published files that transformers overlooks: they must say what is so anyway.
class Published {
 public:
  Published(const JsonFields& config, const Shape& shape, const ModelPlan& plan)
      : config_(config), shape_(shape), plan_(plan) {}

  void check() const {
    const SelfAttentionPlan& attention = plan_.layers.front().attention;
    expect("layernorm_epsilon", plan_.final_norm.eps);
    expect("swa_num_attention_heads", shape_.heads);
    expect("swa_num_key_value_heads", 2.0 * shape_.kv_heads);
    expect("swa_head_dim", shape_.head_dim);
    expect("swa_v_head_dim", attention.v_dim());
    expect("rope_theta", plan_.ropes[0].theta);
    expect("swa_rope_theta", plan_.ropes[1].theta);
    expect_flag("add_full_attention_sink_bias", false);
    expect_flag("add_swa_attention_sink_bias", true);
    expect_list("hybrid_layer_pattern",
                [](const LayerPlan& layer) { return layer.attention.window_tokens > 0; });
    expect_list("moe_layer_freq", [](const LayerPlan& layer) { return bool{layer.experts}; });
    // Of another way to run the same windows.
    (void)config_.find("attention_chunk_size");
  }

 private:
  void refuse(const char* key, const std::string& expected) const {
    config_.faults().unsupported(config_.name(key) + " is " + describe(*config_.find(key)) +
                                 "; by the other keys it is " + expected +
                                 ", and this family runs with that alone");
  }
  void expect(const char* key, double value) const {
    const double own = config_.number(key, value);
    if (static_cast<float>(own) != static_cast<float>(value)) {
      refuse(key, std::to_string(value));
    }
  }
  void expect_flag(const char* key, bool value) const {
    if (config_.flag(key, value) != value) refuse(key, value ? "true" : "false");
  }
  template <typename Value>
  void expect_list(const char* key, Value value) const {
    if (!config_.has(key)) return;
    const std::vector<bool> own = config_.flags(key, plan_.layers.size());
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] != value(plan_.layers[i]))
        return refuse(key, "otherwise in layer " + std::to_string(i));
    }
  }

  const JsonFields& config_;
  const Shape& shape_;
  const ModelPlan& plan_;
};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kShape, plan);
  plan.layers.assign(shape.layers, read_layer(config, shape, plan));
  const std::vector<bool> sliding = read_sliding(config, shape.layers);
  read_windows(config, shape, sliding, plan);
  read_kind_ropes(config, {.full = kFullRope, .sliding = kSlidingRope, .part = 0.334}, sliding,
                  shape.head_dim, plan);
  const ExpertsPlan experts =
      read_sigmoid_router(config, {.experts = {.count = 256,
                                               .chosen = 8,
                                               .width = 2048,
                                               .width_key = "moe_intermediate_size",
                                               .count_key = "n_routed_experts"},
                                   .shared = 0});
  set_checked_experts(config, read_mlp_types(config, 1, shape.layers), experts, plan);
  Published(config, shape, plan).check();
}

// The KV heads of layers without a window.
void kv_heads_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  const char* key = ".attention.head_count_kv";
  const auto& types = config["layer_types"];
  const std::vector<double> all = fields.numbers(key, types.size());
  double whole = 0.0;
  for (size_t i = 0; i < all.size(); ++i) {
    const double own = all[i] / (types[i] == "sliding_attention" ? 2.0 : 1.0);
    if (i == 0) whole = own;
    if (own == whole && own >= 1.0 && own == std::floor(own)) continue;
    return fields.faults().unsupported(
        fields.name(key) + " is " + fields.find(key)->describe() +
        "; this family runs with twice as many in layers with a window as in others alone");
  }
  if (!all.empty()) config["num_key_value_heads"] = static_cast<uint32_t>(whole);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields,
                    {.count = "n_routed_experts",
                     .width = "moe_intermediate_size",
                     .normalised = "norm_topk_prob",
                     .normalised_by_default = true,
                     .scale = "routed_scaling_factor",
                     .groups = "n_group",
                     .groups_chosen = "topk_group",
                     .types = "mlp_layer_types",
                     .gating = kGgufSigmoid},
                    config);
  const double scale = fields.number(".attention.value_scale", 1.0, -1e30, 1e30);
  config["attention_value_scale"] = shortest_double(static_cast<float>(scale));
  windows_from_gguf(fields, config);
  if (!config.contains("layer_types")) {
    config["layer_types"] =
        std::vector<std::string>(config["num_hidden_layers"].get<size_t>(), "full_attention");
  }
  kv_heads_from_gguf(fields, config);
  kind_ropes_from_gguf(fields, config);
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  experts_to_gguf(plan, architecture, out);
  kind_ropes_to_gguf(plan, architecture, out);
  const float scale = plan.layers.front().attention.v_scale;
  if (scale != 1.0f) out.add_real(architecture + ".attention.value_scale", scale);
}

}  // namespace mimo_family

const Family kMimoV2{.model_type = "mimo_v2_flash",
                     .class_stem = "MiMoV2Flash",
                     .architecture = "mimo2",
                     .read = mimo_family::read,
                     .tensors = {.names = mimo_family::kNames,
                                 .part = "self_attn.attention_sink_bias",
                                 .newer_part = "self_attn.sinks"},
                     .gguf_layer_heads = true,
                     .gguf_partial_rotation = true,
                     .gguf_theta = 5e6,
                     .from_gguf = mimo_family::from_gguf,
                     .to_gguf = mimo_family::to_gguf};

}  // namespace tenon
