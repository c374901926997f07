// Gemma 4 (its text models): heads of one width in layers with a window and of another in those
// without, which may have fewer KV heads and make V of K's product; V has a norm without weights;
// the last layers may read the K and V of earlier ones; per-layer embeddings; experts next to the
// MLP. Norms have plain weights, and scores no factor.
#include <algorithm>
#include <cmath>

#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_config.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"
#include "core/model/families/reading/gemma.h"

namespace tenon {
namespace gemma4_family {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr TensorName kNames[] = {
    // Before the names that it begins with. In GGUF files of other families it is a factor of
    // weights in NVFP4.
    {Role::expert_scales, "router.per_expert_scale", "ffn_down_exps.scale", true},
    {Role::attention_post_norm, "post_attention_layernorm"},
    {Role::mlp_norm, "pre_feedforward_layernorm"},
    {Role::mlp_post_norm, "post_feedforward_layernorm"},
    {Role::router, "router.proj"},
    {Role::expert_gate, "experts.*.gate_proj"},
    {Role::expert_up, "experts.*.up_proj"},
    {Role::expert_down, "experts.*.down_proj"},
};

constexpr ShapeDefaults kShape{.vocabulary = 262144,
                               .hidden = 2304,
                               .intermediate = 9216,
                               .layers = 30,
                               .heads = 8,
                               .kv_heads = 4,
                               .head_dim = 256,
                               .context_tokens = 131072,
                               .bos = 2,
                               .eos = 1,
                               .tied = true};
constexpr ShapeDefaults unified_shape() {
  ShapeDefaults shape = kShape;
  shape.context_tokens = 262144;
  return shape;
}
constexpr ShapeDefaults kUnifiedShape = unified_shape();

// The first layer of a kind: its heads are those of all layers of the kind.
const SelfAttentionPlan* first_of(const ModelPlan& plan, bool sliding) {
  for (const LayerPlan& layer : plan.layers) {
    if ((layer.attention.rope == 1) == sliding) return &layer.attention;
  }
  return nullptr;
}

// Every sixth layer sees everything where nothing says which; the last one always does.
void read_kinds(const JsonFields& config, uint32_t window, ModelPlan& plan) {
  std::vector<bool> sliding = read_sliding_layers(config, plan.layers.size());
  for (size_t i = sliding.size(); i < plan.layers.size(); ++i) sliding.push_back((i + 1) % 6 != 0);
  sliding.back() = false;
  set_windows(sliding, config.count("sliding_window", window, 1, kMaxWidth), plan);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    plan.layers[i].attention.rope = sliding[i] ? 1 : 0;
  }
}

// What `per_layer_config` has of a layer, as transformers saves it.
void read_own_heads(const JsonFields& all, const std::string& name, SelfAttentionPlan& attention) {
  const std::optional<JsonFields> own = all.object(name.c_str());
  if (!own) return;
  attention.head_dim = own->count("head_dim", attention.head_dim, 1, kMaxWidth);
  attention.kv_heads = own->count("num_key_value_heads", attention.kv_heads, 1, kMaxWidth);
  for (const auto& [key, value] : all.find(name.c_str())->items()) {
    if (key == "head_dim" || key == "num_key_value_heads") continue;
    all.faults().unsupported("'per_layer_config' has " + in_quotes(key, kMostValueBytes) +
                             " for layer " + name +
                             "; layers have 'head_dim' and 'num_key_value_heads' of their own");
  }
}

// Their keys are numbers as texts, which may begin with zeros.
void read_per_layer_config(const JsonFields& config, ModelPlan& plan) {
  const std::optional<JsonFields> all = config.object("per_layer_config");
  if (!all) return;
  for (const auto& [name, value] : config.find("per_layer_config")->items()) {
    const bool digits = !name.empty() && name.size() <= 6 &&
                        std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    const size_t layer = digits ? std::stoul(name) : plan.layers.size();
    if (layer >= plan.layers.size()) {
      config.faults().invalid("'per_layer_config' has " + in_quotes(name, kMostValueBytes) +
                              "; there are layers 0 to " + std::to_string(plan.layers.size() - 1));
      return;
    }
    read_own_heads(*all, name, plan.layers[layer].attention);
  }
}

// Published files have two keys for layers without a window, which count for nothing next to
// `per_layer_config`.
void read_global_heads(const JsonFields& config, bool k_is_v, ModelPlan& plan) {
  const uint32_t head_dim = config.count("global_head_dim", 512, 1, kMaxWidth);
  const uint32_t kv_heads = config.count("num_global_key_value_heads", 0, 1, kMaxWidth);
  // A null leaves all layers as they are.
  if (config.is_null("per_layer_config")) return;
  if (config.has("per_layer_config")) return read_per_layer_config(config, plan);
  for (LayerPlan& layer : plan.layers) {
    if (layer.attention.rope == 1) continue;
    layer.attention.head_dim = head_dim;
    if (k_is_v && kv_heads > 0) layer.attention.kv_heads = kv_heads;
  }
}

void check_heads(const JsonFields& config, const ModelPlan& plan) {
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const SelfAttentionPlan& own = plan.layers[i].attention;
    const SelfAttentionPlan& first = *first_of(plan, own.rope == 1);
    const std::string heads = "layer " + std::to_string(i) + " has " + std::to_string(own.heads) +
                              " heads of " + std::to_string(own.head_dim) + " on " +
                              std::to_string(own.kv_heads) + " KV heads";
    if (own.heads % own.kv_heads != 0 || own.head_dim % 2 != 0 ||
        uint64_t{own.heads} * own.head_dim > kMaxWidth) {
      return config.faults().invalid(heads +
                                     "; expected an even width, and a multiple of KV heads");
    }
    if (own.head_dim == first.head_dim && own.kv_heads == first.kv_heads) continue;
    return config.faults().unsupported(heads + ", others of its kind " +
                                       std::to_string(first.kv_heads) + " of " +
                                       std::to_string(first.head_dim) +
                                       "; expected the same in all layers with a window, and in "
                                       "all without");
  }
}

void share_kv(const JsonFields& config, ModelPlan& plan) {
  const auto layers = static_cast<uint32_t>(plan.layers.size());
  const char* key = "num_kv_shared_layers";
  const uint32_t shared = config.count(key, 0, 0, layers - 1);
  share_kv_by_kind(config, key, shared, plan);
  if (!config.flag("use_double_wide_mlp", false)) return;
  for (uint32_t i = layers - shared; i < layers; ++i) plan.layers[i].mlp.width *= 2;
}

void read_ropes(const JsonFields& config, ModelPlan& plan) {
  const auto parameters = config.object("rope_parameters");
  const auto read = [&](const char* kind, const RopeDefaults& defaults, bool sliding) {
    const SelfAttentionPlan* attention = first_of(plan, sliding);
    if (attention == nullptr) return plain_rope(config, defaults, 2);  // of no layer
    const uint32_t dim = attention->head_dim;
    const auto own = parameters ? parameters->object(kind) : std::nullopt;
    if (parameters && (!own || !(own->has("rope_theta") || config.has("rope_theta")))) {
      config.faults().invalid(parameters->name(kind) +
                              (own ? " has no 'rope_theta'" : " is missing") +
                              "; some layers are of that kind");
    }
    if (own) {
      RopePlan rope = read_rope_object(config, *own, defaults, dim, plan.context_tokens);
      rope.scaling.truncate = truncates(*parameters);  // it counts next to the kinds alone
      return rope;
    }
    RopePlan rope = plain_rope(config, defaults, dim);
    if (!sliding) rope.turning = dim / 8;  // a quarter
    if (!sliding && dim < 8) {
      config.faults().unsupported("of heads of " + std::to_string(dim) +
                                  " elements a quarter would turn, which is no pair");
    }
    return rope;
  };
  plan.ropes = {read("full_attention", {.theta = 1e6, .proportional = true}, false),
                read("sliding_attention", {.theta = 1e4, .proportional = true}, true)};
}

ExpertsPlan read_experts_beside(const JsonFields& config, const LayerPlan& layer, uint32_t hidden) {
  ExpertsPlan experts;
  const bool enabled = config.flag("enable_moe_block", false);
  const char* keys[] = {"num_experts", "top_k_experts", "moe_intermediate_size"};
  for (const char* key : keys) {
    if (config.has(key) || !enabled) continue;
    config.faults().invalid(config.name(key) + " is missing; 'enable_moe_block' needs it");
  }
  const uint32_t count = config.count(keys[0], 1, enabled ? 1 : 0, 65536);
  const uint32_t chosen = config.count(keys[1], 1, enabled ? 1 : 0, 65536);
  const uint32_t width = config.count(keys[2], 1, enabled ? 1 : 0, kMaxWidth);
  if (!enabled) return experts;
  if (chosen > count) {
    config.faults().invalid("'top_k_experts' is " + std::to_string(chosen) + "; there are " +
                            std::to_string(count) + " experts");
  }
  experts.count = count;
  experts.chosen = std::min(chosen, count);
  experts.width = width;
  experts.activation = layer.mlp.activation;
  experts.normalised = true;
  experts.beside_norm = layer.mlp_norm;
  experts.score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(hidden)));
  experts.expert_scales = true;
  return experts;
}

void read_layer_inputs(const JsonFields& config, LayerPlan& layer, ModelPlan& plan) {
  const char* key = "hidden_size_per_layer_input";
  const uint32_t tokens =
      config.count("vocab_size_per_layer_input", kShape.vocabulary, 1, kMaxWidth);
  layer.input.width = config.is_null(key) ? 0 : config.count(key, 256, 0, kMaxWidth);
  if (!layer.input) return;
  layer.input.activation = layer.mlp.activation;
  layer.input.norm = layer.mlp_norm;
  plan.layer_input_tokens = tokens;
  if (tokens >= plan.vocabulary) return;
  config.faults().invalid("'vocab_size_per_layer_input' is " + std::to_string(tokens) +
                          "; expected a row for each of " + std::to_string(plan.vocabulary) +
                          " tokens");
}

// "vision" lets tokens of an image see each other, which a text has none of.
void check_directions(const JsonFields& config) {
  const std::string sees = config.text("use_bidirectional_attention", "vision");
  if (sees == "vision") return;
  config.faults().unsupported("'use_bidirectional_attention' is " +
                              in_quotes(sees, kMostValueBytes) +
                              "; attention to what follows is not built");
}

LayerPlan read_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.attention_post_norm = layer.mlp_post_norm = layer.attention_norm;
  layer.attention.qk_norm = plan.final_norm = layer.attention_norm;
  layer.attention.v_norm_eps = layer.attention_norm.eps;
  layer.attention.scale = 1.0f;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_activation"}, "gelu_pytorch_tanh");
  layer.scaled = true;
  plan.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(shape.hidden)));
  const char* cap = "final_logit_softcapping";
  if (config.has(cap)) plan.logit_soft_cap = static_cast<float>(bounded_number(config, cap, 0.0));
  return layer;
}

void read_kinds_and_heads(const JsonFields& config, uint32_t window, ModelPlan& plan) {
  check_directions(config);
  read_kinds(config, window, plan);
  const bool k_is_v = config.flag("attention_k_eq_v", false);
  read_global_heads(config, k_is_v, plan);
  for (LayerPlan& layer : plan.layers) {
    layer.attention.k_is_v = k_is_v && layer.attention.rope == 0;
  }
  check_heads(config, plan);
  share_kv(config, plan);
  read_ropes(config, plan);
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kShape, plan);
  LayerPlan layer = read_layer(config, shape, plan);
  read_layer_inputs(config, layer, plan);
  layer.experts = read_experts_beside(config, layer, shape.hidden);
  plan.layers.assign(shape.layers, layer);
  read_kinds_and_heads(config, 512, plan);
}

// Neither per-layer embeddings nor experts, whatever keys there are.
void read_unified(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kUnifiedShape, plan);
  plan.layers.assign(shape.layers, read_layer(config, shape, plan));
  read_kinds_and_heads(config, 1024, plan);
  for (const char* key : {"num_experts", "moe_intermediate_size", "enable_moe_block",
                          "hidden_size_per_layer_input"}) {
    (void)config.find(key);
  }
}

// The kinds of layers, and what those without a window have of their own.
void kinds_from_gguf(const GgufFields& fields, ordered_json& config) {
  const auto layers = config["num_hidden_layers"].get<uint32_t>();
  const char* key = ".attention.sliding_window_pattern";
  const GgufValue* pattern = fields.find(key);
  const auto slides = pattern != nullptr ? pattern->integers() : std::nullopt;
  const GgufValue* kv_heads = fields.find(".attention.head_count_kv");
  const auto by_layer =
      kv_heads != nullptr && kv_heads->is_array() ? kv_heads->integers() : std::nullopt;
  if (!slides || slides->size() != layers || (by_layer && by_layer->size() != layers)) {
    fields.faults().invalid(fields.name(key) + " and " + fields.name(".attention.head_count_kv") +
                            " do not say what each of " + std::to_string(layers) + " layers is");
    return;
  }
  const auto heads = config["num_attention_heads"].get<uint32_t>();
  const uint32_t all = by_layer ? heads : fields.count(".attention.head_count_kv", heads, 1, heads);
  config["num_key_value_heads"] = all;
  config["layer_types"] = config["per_layer_config"] = nullptr;
  for (uint32_t i = 0; i < layers; ++i) {
    config["layer_types"].push_back((*slides)[i] != 0 ? "sliding_attention" : "full_attention");
    ordered_json& own = config["per_layer_config"][std::to_string(i)];
    own["num_key_value_heads"] = by_layer ? (*by_layer)[i] : all;
    if ((*slides)[i] == 0) own["head_dim"] = config["global_head_dim"];
  }
  config["sliding_window"] = fields.count(".attention.sliding_window", 512, 1, kMaxWidth);
}

void ropes_from_gguf(const GgufFields& fields, ordered_json& config) {
  ordered_json full{{"rope_type", "proportional"},
                    {"partial_rotary_factor", config.value("partial_rotary_factor", 1.0)},
                    {"rope_theta", config["rope_theta"]}};
  const ordered_json scaling = config["rope_scaling"];
  if (scaling.is_object() && scaling.value("rope_type", "") != "linear") {
    fields.faults().unsupported("rope scaling of a Gemma 4 model is not linear");
  } else if (scaling.is_object()) {
    full["factor"] = scaling["factor"];
  }
  config["rope_parameters"] = {
      {"full_attention", std::move(full)},
      {"sliding_attention",
       {{"rope_type", "default"},
        {"rope_theta", fields.number(".rope.freq_base_swa", 1e4, 1e-6, 1e30)}}}};
  for (const char* key : {"partial_rotary_factor", "rope_theta", "rope_scaling"}) config.erase(key);
}

// A list where the MLPs of layers that read another's K and V are twice as wide.
void mlps_from_gguf(const GgufFields& fields, ordered_json& config) {
  const auto layers = config["num_hidden_layers"].get<uint32_t>();
  const uint32_t shared = fields.count(".attention.shared_kv_layers", 0, 0, layers - 1);
  config["num_kv_shared_layers"] = shared;
  const GgufValue* widths = fields.find(".feed_forward_length");
  const auto list = widths->is_array() ? widths->integers() : std::nullopt;
  if (!list) return;
  const bool wide = shared > 0 && list->back() == 2 * list->front();
  for (uint32_t i = 0; i < list->size(); ++i) {
    const bool twice = wide && i + shared >= layers;
    if ((*list)[i] == list->front() * (twice ? 2 : 1)) continue;
    fields.faults().unsupported(fields.name(".feed_forward_length") +
                                " has other widths than one, and twice as much in the last layers");
    return;
  }
  config["use_double_wide_mlp"] = wide;
}

void from_gguf(const GgufFields& fields, ordered_json& config) {
  const auto layers = config["num_hidden_layers"].get<uint32_t>();
  kinds_from_gguf(fields, config);
  if (fields.faults().any()) return;
  ropes_from_gguf(fields, config);
  mlps_from_gguf(fields, config);
  for (uint32_t i = 0; i < layers; ++i) {
    if (config["layer_types"][i] != "full_attention") continue;
    const std::string layer = "blk." + std::to_string(i) + ".";
    const bool has_k = fields.has_tensor(layer + "attn_k.weight");
    config["attention_k_eq_v"] = has_k && !fields.has_tensor(layer + "attn_v.weight");
    break;
  }
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["hidden_size_per_layer_input"] =
      fields.count(".embedding_length_per_layer_input", 0, 0, kMaxWidth);
  config["vocab_size_per_layer_input"] = config["vocab_size"];
  const double cap = fields.number(".final_logit_softcapping", 0.0, 0.0, 1e30);
  if (cap > 0.0) config["final_logit_softcapping"] = shortest_double(static_cast<float>(cap));
  const uint32_t experts = fields.count(".expert_count", 0, 0, 65536);
  config["enable_moe_block"] = experts > 0;
  if (experts > 0) {
    config["num_experts"] = experts;
    config["top_k_experts"] = fields.need_count(".expert_used_count", 1, 65536);
    config["moe_intermediate_size"] =
        fields.need_count(".expert_feed_forward_length", 1, kMaxWidth);
  }
  config.erase("use_sliding_window");
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  uint32_t shared = 0;
  for (const LayerPlan& layer : plan.layers) shared += layer.attention.kv_from_layer >= 0 ? 1 : 0;
  out.add_count(architecture + ".attention.shared_kv_layers", shared);
  out.add_count(architecture + ".embedding_length_per_layer_input", plan.input().width);
  if (plan.logit_soft_cap > 0.0f) {
    out.add_real(architecture + ".final_logit_softcapping", plan.logit_soft_cap);
  }
  out.add_real(architecture + ".rope.freq_base_swa", static_cast<float>(plan.ropes[1].theta));
  out.add_count(architecture + ".rope.dimension_count_swa", plan.ropes[1].dim);
  const ExpertsPlan& experts = plan.layers.front().experts;
  if (!experts) return;
  out.add_count(architecture + ".expert_count", experts.count);
  out.add_count(architecture + ".expert_used_count", experts.chosen);
  out.add_count(architecture + ".expert_feed_forward_length", experts.width);
}

}  // namespace gemma4_family

const Family kGemma4{.model_type = "gemma4_text",
                     .class_stem = "Gemma4",
                     .architecture = "gemma4",
                     .read = gemma4_family::read,
                     .tensors = {.names = gemma4_family::kNames, .experts = ExpertLayout::stacked},
                     .gguf_window_heads = true,
                     .gguf_windows = GgufWindows::by_family,
                     .gguf_theta = 1e6,
                     .from_gguf = gemma4_family::from_gguf,
                     .to_gguf = gemma4_family::to_gguf};
const Family kGemma4Unified{.model_type = "gemma4_unified_text",
                            .class_stem = "Gemma4Unified",
                            .architecture = "gemma4",
                            .read = gemma4_family::read_unified,
                            .tensors = {.names = gemma4_family::kNames},
                            .gguf_window_heads = true,
                            .gguf_windows = GgufWindows::by_family,
                            .gguf_theta = 1e6,
                            .from_gguf = gemma4_family::from_gguf,
                            .to_gguf = gemma4_family::to_gguf};

}  // namespace tenon
