// Step 3.5 and the text part of Step 3.7: layers with a window have heads and a rotary setting of
// their own, a gate after attention with one number a head, DeepSeek-V3's router without groups,
// and limits on what gates multiply, by layer.
#include <algorithm>
#include <cmath>

#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_config.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace step_family {

using nlohmann::json;

constexpr TensorName kNames[] = {
    {Role::output_gate, "self_attn.g_proj", "attn_gate"},
    {Role::router, "moe.gate"},
    {Role::router_correction, "moe.router_bias", "exp_probs_b.bias", true},
    {Role::expert_gate, "moe.gate_proj"},
    {Role::expert_up, "moe.up_proj"},
    {Role::expert_down, "moe.down_proj"},
    {Role::shared_gate, "share_expert.gate_proj"},
    {Role::shared_up, "share_expert.up_proj"},
    {Role::shared_down, "share_expert.down_proj"},
};
constexpr std::pair<std::string_view, std::string_view> kMoreParts[] = {
    {"moe.gate.", "mlp.gate."},
    {"moe.gate_proj", "mlp.experts.gate_proj"},
    {"moe.up_proj", "mlp.experts.up_proj"},
    {"moe.down_proj", "mlp.experts.down_proj"},
    {"share_expert.", "mlp.shared_experts."},
};
constexpr const char* kSliding = "sliding_attention";
constexpr const char* kFull = "full_attention";

// Lists by layer, in which published files count the layers for drafts that follow as well.
class Lists {
 public:
  Lists(const JsonFields& config, uint32_t layers)
      : config_(config),
        layers_(layers),
        padded_(layers + config.count("num_nextn_predict_layers", 0, 0, kMaxLayers)) {}

  // [layers] of the list at `key`; empty: it is not there, or wrong.
  std::vector<json> at(const char* key) const {
    const json* list = config_.find(key);
    if (list == nullptr) return {};
    if (list->is_array() && (list->size() == layers_ || list->size() == padded_)) {
      return std::vector<json>(list->begin(), list->begin() + layers_);
    }
    config_.faults().invalid(config_.name(key) + " is " + describe(*list) +
                             "; expected a list of " + std::to_string(layers_) + ", one a layer");
    return {};
  }
  // The same of limits: 0 and null are none.
  std::vector<float> limits(const char* key) const {
    std::vector<float> out(layers_, 0.0f);
    const std::vector<json> list = at(key);
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].is_null()) continue;
      const bool sound = list[i].is_number() && list[i].get<double>() >= 0.0 &&
                         std::isfinite(list[i].get<float>());
      if (sound) out[i] = list[i].get<float>();
      if (sound) continue;
      config_.faults().invalid(config_.name(key) + " has " + describe(list[i]) +
                               "; expected numbers from 0, or null");
      break;
    }
    return out;
  }
  // [layers] whether each is `yes`, where others are `no`; empty: the list is not there.
  std::vector<bool> kinds(const char* key, std::string_view yes, std::string_view no) const {
    std::vector<bool> out;
    for (const json& kind : at(key)) {
      out.push_back(kind == yes);
      if (kind == yes || kind == no) continue;
      config_.faults().unsupported(config_.name(key) + " has " + describe(kind) + "; there are " +
                                   in_quotes(yes) + " and " + in_quotes(no));
      return {};
    }
    return out;
  }

 private:
  const JsonFields& config_;
  const uint32_t layers_, padded_;
};

// As the older key has it: the layers with experts, as numbers or as a text of them.
std::vector<bool> read_enumerated(const JsonFields& config, uint32_t layers) {
  const char* key = "moe_layers_enum";
  const json* listed = config.find(key);
  std::vector<bool> sparse(layers, false);
  for (uint32_t i = 3; i < layers && listed == nullptr; ++i) sparse[i] = true;
  if (listed == nullptr) return sparse;
  json items = *listed;
  if (listed->is_string()) {
    items = json::parse("[" + listed->get<std::string>() + "]", nullptr, false);
  }
  const auto sound = [](const json& item) { return item.is_number_unsigned(); };
  if (!items.is_array() || !std::ranges::all_of(items, sound)) {
    config.faults().invalid(config.name(key) + " is " + describe(*listed) +
                            "; expected layers, as a list or as \"3,4,5\"");
    return sparse;
  }
  for (const json& item : items) {
    if (item.get<uint64_t>() < layers) sparse[item.get<size_t>()] = true;
  }
  return sparse;
}

// Those of layers with a window, by the newer key or the older one, whose other numbers
// transformers overlooks: they must say what is so anyway.
uint32_t read_sliding_heads(const JsonFields& config, const Shape& shape) {
  const auto older = config.object("attention_other_setting");
  uint32_t heads = shape.heads;
  if (older) {
    heads = older->count("num_attention_heads", heads, 1, kMaxWidth);
    const std::pair<const char*, uint32_t> alike[] = {{"num_attention_groups", shape.kv_heads},
                                                      {"num_key_value_heads", shape.kv_heads},
                                                      {"head_dim", shape.head_dim},
                                                      {"true_head_dim", shape.head_dim}};
    for (const auto& [key, expected] : alike) {
      if (older->count(key, expected, 1, kMaxWidth) == expected) continue;
      config.faults().unsupported(older->name(key) + " is " + describe(*older->find(key)) +
                                  "; layers with a window have heads of their own, but this alike");
    }
    if (older->text("attention_type", kSliding) != kSliding) {
      config.faults().unsupported(older->name("attention_type") + " is not \"sliding_attention\"");
    }
  }
  return config.count("num_sliding_attention_heads", heads, 1, kMaxWidth);
}

// What transformers saves of layers that differ, which counts for all of them.
void read_saved_heads(const JsonFields& config, ModelPlan& plan) {
  const auto all = config.object("per_layer_config");
  if (!all) return;
  for (const auto& [name, value] : config.find("per_layer_config")->items()) {
    const bool digits = !name.empty() && name.size() <= 5 &&
                        std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    const size_t layer = digits ? std::stoul(name) : plan.layers.size();
    const auto own = all->object(name.c_str());
    if (layer >= plan.layers.size() || !own) {
      config.faults().invalid("'per_layer_config' has " + in_quotes(name, kMostValueBytes) +
                              "; there are layers 0 to " + std::to_string(plan.layers.size() - 1));
      return;
    }
    SelfAttentionPlan& attention = plan.layers[layer].attention;
    attention.heads = own->count("num_attention_heads", attention.heads, 1, kMaxWidth);
    for (const auto& [key, other] : value.items()) {
      if (key == "num_attention_heads") continue;
      config.faults().unsupported("'per_layer_config' has " + in_quotes(key, kMostValueBytes) +
                                  " for layer " + name +
                                  "; layers have 'num_attention_heads' of their own alone");
    }
  }
}

void read_heads(const JsonFields& config, const Shape& shape, const std::vector<bool>& sliding,
                ModelPlan& plan) {
  const uint32_t heads = read_sliding_heads(config, shape);
  for (size_t i = 0; i < sliding.size() && !config.has("per_layer_config"); ++i) {
    if (sliding[i]) plan.layers[i].attention.heads = heads;
  }
  read_saved_heads(config, plan);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const uint32_t own = plan.layers[i].attention.heads;
    if (own % shape.kv_heads == 0 && uint64_t{own} * shape.head_dim <= kMaxWidth) continue;
    return config.faults().invalid("layer " + std::to_string(i) + " has " + std::to_string(own) +
                                   " heads of " + std::to_string(shape.head_dim) + " on " +
                                   std::to_string(shape.kv_heads) +
                                   " KV heads; expected a multiple");
  }
}

// That of the first layer of a kind, of published lists: one base or a list of them, and a list of
// how much of a head turns; scaling is for layers without a window.
json published_rope(const JsonFields& config, const Lists& lists, size_t first, bool slides) {
  json rope = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  if (const json* theta = config.find("rope_theta")) {
    const bool list = theta->is_array();
    const std::vector<json> by_layer = list ? lists.at("rope_theta") : std::vector<json>();
    if (!list) rope["rope_theta"] = *theta;
    if (first < by_layer.size()) rope["rope_theta"] = by_layer[first];
  }
  const std::vector<json> parts = lists.at("partial_rotary_factors");
  if (first < parts.size()) rope["partial_rotary_factor"] = parts[first];
  if (const json* scaling = config.find("rope_scaling"); scaling != nullptr && !slides) {
    if (scaling->is_object()) rope.update(*scaling);
  }
  return rope;
}

void read_ropes(const JsonFields& config, const Lists& lists, const std::vector<bool>& sliding,
                uint32_t head_dim, ModelPlan& plan) {
  const json none = json::object();
  const JsonFields nothing(none, config.faults());
  const auto saved = config.object("rope_parameters");
  // Next to settings by kind it counts for those without one of their own.
  json part = json::object();
  if (const json* value = config.find("partial_rotary_factor")) {
    part["partial_rotary_factor"] = *value;
  }
  const JsonFields beside(part, config.faults());
  const auto of_kind = [&](bool slides) {
    return std::ranges::find(sliding, slides) != sliding.end();
  };
  bool by_kind = saved.has_value();
  for (const bool slides : {false, true}) {
    by_kind = by_kind && (!of_kind(slides) || saved->object(slides ? kSliding : kFull));
  }
  if (saved && !by_kind && !config.find("rope_parameters")->empty()) {
    config.faults().unsupported(
        "'rope_parameters' has no settings for each kind of layers; the reference overlooks it");
  }
  plan.ropes.clear();
  for (const bool slides : {false, true}) {
    const size_t first = static_cast<size_t>(std::ranges::find(sliding, slides) - sliding.begin());
    const RopeDefaults defaults{.partial = PartialRotation::by_key};
    if (by_kind && of_kind(slides)) {
      const auto own = saved->object(slides ? kSliding : kFull);
      plan.ropes.push_back(read_rope_object(beside, *own, defaults, head_dim, plan.context_tokens));
    } else {
      const json rope = published_rope(config, lists, first, slides);
      plan.ropes.push_back(read_rope_object(nothing, JsonFields(rope, config.faults()), defaults,
                                            head_dim, plan.context_tokens));
    }
  }
  // Step's own code overlooks it, wherever it stands.
  for (RopePlan& rope : plan.ropes) rope.scaling.truncate = true;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    plan.layers[i].attention.rope = sliding[i] ? 1 : 0;
  }
}

ExpertsPlan read_router(const JsonFields& config) {
  ExpertsPlan experts =
      read_experts(config, {.count = 288,
                            .chosen = 8,
                            .width = 1280,
                            .width_key = "moe_intermediate_size",
                            .count_key = general_or(config, "moe_num_experts", "n_routed_experts"),
                            .chosen_key = "moe_top_k",
                            .chosen_is_field = false});
  experts.activation = Activation::silu;
  experts.scoring = ExpertScoring::sigmoid;
  experts.correction = experts.normalised = true;
  experts.sum_more = 0.0f;
  experts.scale = static_cast<float>(config.number("moe_router_scaling_factor", 1.0));
  experts.shared_width =
      config.count(general_or(config, "share_expert_dims", "share_expert_dim"), 1280, 1, kMaxWidth);
  return experts;
}

// Keys of published files that transformers overlooks: they must say what is so anyway.
void expect_published(const JsonFields& config) {
  for (const char* key :
       {"use_head_wise_attn_gate", "use_moe_router_bias", "use_moe", "use_qk_norm",
        "use_swiglu_limit", "norm_expert_weight", "zero_centered"}) {
    if (config.flag(key, true)) continue;
    config.faults().unsupported(config.name(key) + " is false; this family runs with it alone");
  }
  expect_value(config, "moe_router_activation", "sigmoid");
}

LayerPlan read_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.attention_norm.plus_one = true;
  layer.mlp_norm = layer.attention.qk_norm = plan.final_norm = layer.attention_norm;
  layer.attention.scale = static_cast<float>(
      1.0 / std::sqrt(bounded_number(config, "query_pre_attn_scalar", shape.head_dim)));
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.attention.output_gate = layer.attention.gate_by_head = true;
  layer.attention.gate_bias = false;
  layer.mlp.activation = Activation::silu;
  layer.mlp.bias = config.flag("mlp_bias", false);
  return layer;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const char* groups = general_or(config, "num_attention_groups", "num_key_value_heads");
  const Shape shape = read_shape(config,
                                 {.vocabulary = 128815,
                                  .hidden = 4096,
                                  .intermediate = 11264,
                                  .layers = 45,
                                  .heads = 64,
                                  .kv_heads = 8,
                                  .head_dim = 128,
                                  .context_tokens = 128000},
                                 plan, {.kv_heads = groups});
  plan.layers.assign(shape.layers, read_layer(config, shape, plan));
  const Lists lists(config, shape.layers);
  std::vector<bool> sliding = lists.kinds("layer_types", kSliding, kFull);
  sliding.resize(shape.layers, false);
  const char* window = "sliding_window";
  const bool slides = std::ranges::find(sliding, true) != sliding.end();
  if (slides && !config.has(window)) {
    config.faults().invalid(config.name(window) + " is missing; some layers have a window");
  }
  set_windows(sliding, config.has(window) ? config.count(window, 1, 1, kMaxWidth) : 0, plan);
  read_heads(config, shape, sliding, plan);
  read_ropes(config, lists, sliding, shape.head_dim, plan);
  std::vector<bool> sparse = lists.kinds("mlp_layer_types", "sparse", "dense");
  const std::vector<bool> enumerated = read_enumerated(config, shape.layers);
  if (sparse.empty()) sparse = enumerated;
  ExpertsPlan experts = read_router(config);
  experts.shared_bias = plan.layers.front().mlp.bias;
  set_checked_experts(config, sparse, experts, plan);
  const std::vector<float> limits = lists.limits("swiglu_limits");
  const std::vector<float> shared = lists.limits("swiglu_limits_shared");
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    LayerPlan& layer = plan.layers[i];
    if (!layer.experts) layer.mlp.limit = shared[i];
    if (!layer.experts) continue;
    layer.experts.limit = limits[i];
    layer.experts.shared_limit = shared[i];
  }
  expect_published(config);
  for (const char* key : {"mtp_layer_types", "mtp_mlp_layer_types", "hidden_act", "need_fp32_gate",
                          "att_impl_type", "yarn_only_types"}) {
    (void)config.find(key);
  }
}

// Heads of layers that have others than the first, and V as wide as they are.
void heads_from_gguf(const GgufFields& fields, json::size_type layers,
                     nlohmann::ordered_json& config) {
  const char* kv_key = ".attention.head_count_kv";
  const double kv_heads = config["num_key_value_heads"].get<double>();
  const std::vector<double> all_kv = fields.numbers(kv_key, layers);
  if (!std::ranges::all_of(all_kv, [&](double own) { return own == kv_heads; })) {
    fields.faults().unsupported(fields.name(kv_key) + " is " + fields.find(kv_key)->describe() +
                                "; this family runs with one number of KV heads in all layers");
  }
  if (config["v_head_dim"] != config["head_dim"]) {
    fields.faults().unsupported(fields.name(".attention.value_length") + " is " +
                                config["v_head_dim"].dump() + "; this family runs with heads of " +
                                config["head_dim"].dump() + " in V as well");
  }
  config.erase("v_head_dim");
  const std::vector<double> heads = fields.numbers(".attention.head_count", layers);
  for (size_t i = 0; i < heads.size(); ++i) {
    if (heads[i] == heads.front()) continue;
    config["per_layer_config"][std::to_string(i)] = {
        {"num_attention_heads", static_cast<int64_t>(heads[i])}};
  }
}

void limits_from_gguf(const GgufFields& fields, json::size_type layers,
                      nlohmann::ordered_json& config) {
  for (const auto& [stored, key] : {std::pair(".swiglu_clamp_exp", "swiglu_limits"),
                                    std::pair(".swiglu_clamp_shexp", "swiglu_limits_shared")}) {
    if (!fields.has(stored)) continue;
    auto list = nlohmann::ordered_json::array();
    for (const double limit : fields.numbers(stored, layers)) {
      list.push_back(shortest_double(static_cast<float>(limit)));
    }
    config[key] = std::move(list);
  }
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields,
                    {.count = "n_routed_experts",
                     .width = "moe_intermediate_size",
                     .shared_width = "share_expert_dim",
                     .scale = "moe_router_scaling_factor",
                     .types = "mlp_layer_types",
                     .gating = kGgufSigmoid},
                    config);
  if (!fields.flag(".expert_weights_norm", true)) {
    fields.faults().unsupported(fields.name(".expert_weights_norm") +
                                " is false; this family divides factors by their sum");
  }
  const auto layers = config["num_hidden_layers"].get<size_t>();
  heads_from_gguf(fields, layers, config);
  limits_from_gguf(fields, layers, config);
  windows_from_gguf(fields, config);
  if (!config.contains("layer_types")) {
    config["layer_types"] = std::vector<std::string>(layers, kFull);
  }
  kind_ropes_from_gguf(fields, config);
  auto& part = config["rope_parameters"][kFull]["partial_rotary_factor"];
  part = part.get<double>() / 2.0;
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  router_to_gguf(plan, architecture, out);
  kind_ropes_to_gguf(plan, architecture, out);
  std::vector<float> routed, shared;
  for (const LayerPlan& layer : plan.layers) {
    routed.push_back(layer.experts.limit);
    shared.push_back(layer.experts ? layer.experts.shared_limit : layer.mlp.limit);
  }
  const auto any = [](float limit) { return limit > 0.0f; };
  if (std::ranges::any_of(routed, any)) out.add_reals(architecture + ".swiglu_clamp_exp", routed);
  if (std::ranges::any_of(shared, any)) out.add_reals(architecture + ".swiglu_clamp_shexp", shared);
}

}  // namespace step_family

const Family kStep{.model_type = "step3p5",
                   .class_stem = "Step3p5",
                   .architecture = "step35",
                   .read = step_family::read,
                   .tensors = {.names = step_family::kNames,
                               .experts = ExpertLayout::by_matrix,
                               .part = "moe.router_bias",
                               .newer_part = "mlp.gate.e_score_correction_bias",
                               .more_parts = step_family::kMoreParts},
                   .other_stem = "Step3p7Text",
                   .gguf_adds_one = true,
                   .gguf_layer_heads = true,
                   .gguf_partial_rotation = true,
                   .gguf_half_rotation = true,
                   .from_gguf = step_family::from_gguf,
                   .to_gguf = step_family::to_gguf};

}  // namespace tenon
