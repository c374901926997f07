// LFM2, LFM2-MoE and LFM3 (Liquid): most layers have a short convolution in place of attention.
// LFM3 has windows in some of those that attend, a gate for each head, and norms after both halves.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace lfm_family {

using nlohmann::json;
using nlohmann::ordered_json;

// LFM3's are those without its last four, which Llama has, and with three of its own.
constexpr TensorName kLfm2Names[] = {
    {Role::embedding_norm, ""},
    {Role::final_norm, "model.embedding_norm", "token_embd_norm"},
    {Role::attention_norm, "operator_norm"},
    {Role::mlp_norm, "ffn_norm"},
    {Role::ssm_in, "conv.in_proj", "shortconv.in_proj"},
    {Role::ssm_conv, "conv.conv", "shortconv.conv"},
    {Role::ssm_out, "conv.out_proj", "shortconv.out_proj"},
    {Role::gate, "feed_forward.w1"},
    {Role::up, "feed_forward.w3"},
    {Role::down, "feed_forward.w2"},
    {Role::output, "self_attn.out_proj"},
    {Role::q_norm, "self_attn.q_layernorm"},
    {Role::k_norm, "self_attn.k_layernorm"},
    {Role::router, "feed_forward.gate"},
    {Role::router_correction, "feed_forward.expert_bias", "exp_probs_b.bias", true},
    {Role::expert_gate, "feed_forward.experts.*.w1"},
    {Role::expert_up, "feed_forward.experts.*.w3"},
    {Role::expert_down, "feed_forward.experts.*.w2"},
};
constexpr TensorName kLfm3Names[] = {
    {Role::embedding_norm, ""},
    {Role::final_norm, "model.embedding_norm"},
    {Role::attention_norm, "operator_norm"},
    {Role::attention_post_norm, "post_operator_norm"},
    {Role::mlp_norm, "ffn_norm"},
    {Role::mlp_post_norm, "post_ffn_norm"},
    {Role::ssm_in, "conv.in_proj"},
    {Role::ssm_conv, "conv.conv"},
    {Role::ssm_out, "conv.out_proj"},
    {Role::gate, "feed_forward.w1"},
    {Role::up, "feed_forward.w3"},
    {Role::down, "feed_forward.w2"},
    {Role::output_gate, "self_attn.gate_proj", "attn_gate"},
};

constexpr ShapeDefaults kLfm2Shape{.vocabulary = 65536,
                                   .hidden = 2560,
                                   .intermediate = 12288,
                                   .layers = 32,
                                   .heads = 32,
                                   .kv_heads = 8,
                                   .context_tokens = 128000,
                                   .bos = 1,
                                   .eos = 2,
                                   .tied = true};
constexpr ShapeDefaults kMoeShape{.vocabulary = 65536,
                                  .hidden = 2048,
                                  .intermediate = 7168,
                                  .layers = 32,
                                  .heads = 32,
                                  .kv_heads = 8,
                                  .context_tokens = 128000,
                                  .bos = 1,
                                  .eos = 2,
                                  .tied = true};
constexpr ShapeDefaults kLfm3Shape{.vocabulary = 128000,
                                   .hidden = 2048,
                                   .intermediate = 7680,
                                   .layers = 24,
                                   .heads = 16,
                                   .kv_heads = 4,
                                   .head_dim = 128,
                                   .context_tokens = 128000,
                                   .bos = 124894,
                                   .eos = 124900,
                                   .tied = true};

enum class LayerType : uint8_t { conv, full, sliding };

// [layers]; empty where the key is not there, or wrong.
std::vector<LayerType> read_types(const JsonFields& config, size_t layers, bool windows) {
  const json* types = config.find("layer_types");
  if (types == nullptr) return {};
  if (!types->is_array() || types->size() != layers) {
    config.faults().invalid("'layer_types' is " + describe(*types) + "; expected a list of " +
                            std::to_string(layers) + ", one type a layer");
    return {};
  }
  std::vector<LayerType> out;
  for (const json& type : *types) {
    if (type == "conv") {
      out.push_back(LayerType::conv);
    } else if (type == "full_attention") {
      out.push_back(LayerType::full);
    } else if (windows && type == "sliding_attention") {
      out.push_back(LayerType::sliding);
    } else {
      config.faults().unsupported("'layer_types' has " + describe(type) +
                                  "; there are \"conv\", \"full_attention\"" +
                                  (windows ? " and \"sliding_attention\"" : ""));
      return {};
    }
  }
  return out;
}

// Where nothing says which layers attend, all of them do.
std::vector<LayerType> types_by_index(const JsonFields& config, size_t layers) {
  const json* attending = config.find("full_attn_idxs");
  if (attending == nullptr) return std::vector<LayerType>(layers, LayerType::full);
  std::vector<LayerType> types(layers, LayerType::conv);
  const auto sound = [](const json& item) { return item.is_number_unsigned(); };
  if (!attending->is_array() || !std::ranges::all_of(*attending, sound)) {
    config.faults().invalid("'full_attn_idxs' is " + describe(*attending) +
                            "; expected a list of layers");
    return types;
  }
  for (const json& item : *attending) {
    if (item.get<uint64_t>() < layers) types[item.get<size_t>()] = LayerType::full;
  }
  return types;
}

// One matrix makes three times the stream's width.
RecurrentPlan read_convolution(const JsonFields& config, uint32_t hidden, uint32_t width) {
  RecurrentPlan convolution{.kind = Recurrence::short_conv, .gate_norm = {}};
  convolution.heads = hidden;
  convolution.head_dim = convolution.groups = 1;
  convolution.width = config.count("conv_L_cache", width, 2, kMaxConvolution);
  convolution.projection_bias = convolution.output_bias = convolution.convolution_bias =
      config.flag("conv_bias", false);
  if (hidden > kMaxWidth / 3) {
    config.faults().invalid("'hidden_size' is " + std::to_string(hidden) + "; expected at most " +
                            std::to_string(kMaxWidth / 3) + ", for three products of that width");
    convolution.heads = 1;
  }
  return convolution;
}

void add_layers(const std::vector<LayerType>& types, const LayerPlan& attending,
                const RecurrentPlan& convolution, ModelPlan& plan) {
  for (const LayerType type : types) {
    plan.layers.push_back(attending);
    if (type == LayerType::conv) replace_attention(convolution, plan.layers.back());
  }
}

Shape read_lfm2_shape(const JsonFields& config, const ShapeDefaults& defaults,
                      const ShapeKeys& keys, ModelPlan& plan) {
  const Shape shape = read_shape(config, defaults, plan, keys);
  plan.tied_embeddings = config.flag("tie_embedding", plan.tied_embeddings);
  plan.ropes = {read_rope(config, {.theta = 1e6}, shape.head_dim, plan.context_tokens)};
  return shape;
}

LayerPlan lfm2_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "norm_eps", 1e-5));
  plan.final_norm = layer.attention.qk_norm = layer.attention_norm;
  return layer;
}

// What config.json says is the width before it is made for a gated MLP, unless it says otherwise.
uint32_t read_mlp_width(const JsonFields& config, uint32_t width) {
  const bool adjusts = config.flag("block_auto_adjust_ff_dim", true);
  const uint64_t multiple = config.count("block_multiple_of", 256, 1, kMaxWidth);
  const char* key = "block_ffn_dim_multiplier";
  const double multiplier = bounded_number(config, key, 1.0);
  if (!adjusts) return width;
  uint64_t adjusted = 2 * uint64_t{width} / 3;
  if (!config.is_null(key)) {
    const double wanted = std::min(multiplier * static_cast<double>(adjusted), 1e15);
    adjusted = (static_cast<uint64_t>(wanted) + multiple - 1) / multiple * multiple;
  }
  if (adjusted >= 1 && adjusted <= kMaxWidth) return static_cast<uint32_t>(adjusted);
  config.faults().invalid("the MLP's width is " + std::to_string(adjusted) +
                          " by 'block_auto_adjust_ff_dim'; expected 1 to " +
                          std::to_string(kMaxWidth));
  return width;
}

void read_lfm2(const JsonFields& config, ModelPlan& plan) {
  const char* width = general_or(config, "block_ff_dim", "intermediate_size");
  (void)config.find("intermediate_size");
  const Shape shape = read_lfm2_shape(config, kLfm2Shape, {.intermediate = width}, plan);
  LayerPlan layer = lfm2_layer(config, shape, plan);
  layer.mlp.width = read_mlp_width(config, shape.intermediate);
  std::vector<LayerType> types = read_types(config, shape.layers, false);
  const std::vector<LayerType> by_index = types_by_index(config, shape.layers);
  if (types.empty()) types = by_index;
  add_layers(types, layer, read_convolution(config, shape.hidden, 3), plan);
}

void read_moe(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_lfm2_shape(config, kMoeShape, {}, plan);
  const LayerPlan layer = lfm2_layer(config, shape, plan);
  std::vector<LayerType> types = read_types(config, shape.layers, false);
  types.resize(shape.layers, LayerType::full);
  add_layers(types, layer, read_convolution(config, shape.hidden, 3), plan);
  ExpertsPlan experts = read_experts(
      config, {.count = 32, .chosen = 4, .width = 1792, .width_key = "moe_intermediate_size"});
  // transformers knows no other, whatever hidden_act says.
  experts.activation = Activation::silu;
  experts.scoring = ExpertScoring::sigmoid;
  experts.correction = config.flag("use_expert_bias", true);
  experts.normalised = config.flag("norm_topk_prob", true);
  experts.sum_more = 1e-6f;
  experts.scale = static_cast<float>(config.number("routed_scaling_factor", 1.0));
  const uint32_t dense = config.count("num_dense_layers", 2, 0, kMaxLayers);
  if (dense >= shape.layers) return;
  if (!experts) config.faults().invalid("'num_experts' is 0; expected experts in some layers");
  check_experts(config, experts);
  std::vector<bool> sparse(shape.layers, false);
  std::fill(sparse.begin() + dense, sparse.end(), true);
  set_experts(sparse, experts, plan);
}

// "proportional": the frequencies are those of whole heads, of which the last ones are 0.
RopePlan read_proportional(const JsonFields& rope, double theta, uint32_t head_dim) {
  RopePlan out;
  out.dim = head_dim;
  out.theta = bounded_number(rope, "rope_theta", theta);
  const double part = rope.number("partial_rotary_factor", 1.0);
  const auto factor = static_cast<float>(bounded_number(rope, "factor", 1.0));
  if (part < 0.0 || part > 1.0) {
    rope.faults().invalid(rope.name("partial_rotary_factor") + " is " + std::to_string(part) +
                          "; expected 0 to 1");
    return out;
  }
  const auto turning = static_cast<size_t>(std::floor(part * head_dim / 2));
  out.factors.assign(head_dim / 2, std::numeric_limits<float>::infinity());
  std::fill_n(out.factors.begin(), turning, factor);
  return out;
}

// `type` is the type of layers that the setting is for.
RopePlan read_lfm3_rope(const JsonFields& config, const char* type, const Shape& shape,
                        ModelPlan& plan) {
  static const json kDefaults = {
      {"full_attention",
       {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.5}}},
      {"sliding_attention", {{"rope_theta", 1e4}}}};
  const auto given = config.object("rope_parameters");
  const JsonFields all = given ? *given : JsonFields(kDefaults, config.faults());
  const auto rope = all.object(type);
  if (!rope) {
    config.faults().invalid("'rope_parameters' has no " + in_quotes(type) +
                            "; layers of that type need one");
    return plain_rope(config, {}, shape.head_dim);
  }
  const double theta = bounded_number(config, "rope_theta", 1e6);
  if (rope->text("rope_type", rope->text("type", "default")) == "proportional") {
    return read_proportional(*rope, theta, shape.head_dim);
  }
  RopePlan out =
      read_rope_object(config, *rope, {.theta = theta}, shape.head_dim, plan.context_tokens);
  out.scaling.truncate = truncates(all);  // it counts next to the types alone
  return out;
}

void read_lfm3(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kLfm3Shape, plan);
  LayerPlan layer =
      llama_layer(shape, read_eps(config, general_or(config, "rms_norm_eps", "norm_eps"), 1e-5));
  plan.final_norm = layer.attention.qk_norm = layer.attention_norm;
  if (config.flag("use_sandwich_norm", true)) {
    layer.attention_post_norm = layer.mlp_post_norm = layer.attention_norm;
  }
  SelfAttentionPlan& attention = layer.attention;
  attention.output_gate = attention.gate_by_head = config.flag("use_attention_gate", true);
  attention.gate_bias = false;
  attention.qkv_bias = attention.output_bias = config.flag("attention_bias", false);
  std::vector<LayerType> types = read_types(config, shape.layers, true);
  for (size_t i = types.size(); i < shape.layers; ++i) {
    types.push_back(i % 4 == 2            ? LayerType::full
                    : i % 4 == 0 && i > 0 ? LayerType::sliding
                                          : LayerType::conv);
  }
  add_layers(types, layer, read_convolution(config, shape.hidden, 7), plan);
  const uint32_t window =
      config.is_null("sliding_window") ? 0 : config.count("sliding_window", 256, 1, kMaxWidth);
  const auto set_rope = [&](LayerType type, const char* name, uint32_t own_window) {
    if (std::ranges::find(types, type) == types.end()) return;
    plan.ropes.push_back(read_lfm3_rope(config, name, shape, plan));
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] != type) continue;
      plan.layers[i].attention.rope = static_cast<int32_t>(plan.ropes.size() - 1);
      plan.layers[i].attention.window_tokens = own_window;
    }
  };
  set_rope(LayerType::full, "full_attention", 0);
  set_rope(LayerType::sliding, "sliding_attention", window);
}

// Files have the MLP's width as it is, and of each layer the number of its KV heads.
void from_gguf(const GgufFields& fields, ordered_json& config) {
  config["conv_L_cache"] = fields.need_count(".shortconv.l_cache", 2, kMaxConvolution);
  config["block_auto_adjust_ff_dim"] = false;
  config["conv_bias"] = false;
  for (size_t i = 0; i < config["layer_types"].size(); ++i) {
    if (config["layer_types"][i] != "linear_attention") continue;
    config["layer_types"][i] = "conv";
    config["conv_bias"] = fields.has_tensor("blk." + std::to_string(i) + ".shortconv.conv.bias");
  }
}

void moe_from_gguf(const GgufFields& fields, ordered_json& config) {
  from_gguf(fields, config);
  config.erase("block_auto_adjust_ff_dim");
  const uint32_t dense = fields.count(".leading_dense_block_count", 0, 0, kMaxLayers);
  config["num_dense_layers"] = dense;
  config["use_expert_bias"] =
      fields.has_tensor("blk." + std::to_string(dense) + ".exp_probs_b.bias");
  experts_from_gguf(fields,
                    {.width = "moe_intermediate_size",
                     .normalised = "norm_topk_prob",
                     .normalised_by_default = true,
                     .scale = "routed_scaling_factor",
                     .gating = 2},
                    config);
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const auto recurs = [](const LayerPlan& layer) { return bool{layer.recurrent}; };
  const auto found = std::ranges::find_if(plan.layers, recurs);
  // Programs that read it expect the key of all files.
  const uint32_t width = found == plan.layers.end() ? 3 : found->recurrent.width;
  out.add_count(architecture + ".shortconv.l_cache", width);
}

void moe_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  to_gguf(plan, architecture, out);
  const auto dense =
      std::ranges::count_if(plan.layers, [](const LayerPlan& layer) { return !layer.experts; });
  out.add_count(architecture + ".leading_dense_block_count", static_cast<uint32_t>(dense));
  experts_to_gguf(plan, architecture, out);
}

}  // namespace lfm_family

const Family kLfm2{.model_type = "lfm2",
                   .class_stem = "Lfm2",
                   .architecture = "lfm2",
                   .read = lfm_family::read_lfm2,
                   .tensors = {.names = lfm_family::kLfm2Names},
                   .gguf_attention = GgufAttention::in_some_layers,
                   .gguf_eps_key = "norm_eps",
                   .gguf_theta = 1e6,
                   .from_gguf = lfm_family::from_gguf,
                   .to_gguf = lfm_family::to_gguf};
const Family kLfm2Moe{.model_type = "lfm2_moe",
                      .class_stem = "Lfm2Moe",
                      .architecture = "lfm2moe",
                      .read = lfm_family::read_moe,
                      .tensors = {.names = lfm_family::kLfm2Names},
                      .gguf_attention = GgufAttention::in_some_layers,
                      .gguf_eps_key = "norm_eps",
                      .gguf_theta = 1e6,
                      .from_gguf = lfm_family::moe_from_gguf,
                      .to_gguf = lfm_family::moe_to_gguf};
const Family kLfm3{.model_type = "lfm3",
                   .class_stem = "Lfm3",
                   .architecture = "",
                   .read = lfm_family::read_lfm3,
                   .tensors = {.names = lfm_family::kLfm3Names,
                               .part = "self_attn.gate_proj",
                               .newer_part = "self_attn.g_proj"}};

}  // namespace tenon
