#include "core/model/checkpoint/gguf_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_ends.h"
#include "core/model/checkpoint/gguf_layers.h"
#include "core/model/checkpoint/gguf_source.h"
#include "core/model/config/model_config.h"
#include "core/model/families/family.h"
#include "core/model/families/nearest.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace {

using nlohmann::ordered_json;

void check_heads(const GgufSource& source, uint32_t heads, uint32_t kv_heads) {
  Faults& faults = source.faults();
  if (heads % kv_heads != 0) {
    faults.invalid(std::to_string(heads) + " heads are not a multiple of " +
                   std::to_string(kv_heads) + " KV heads");
  }
  if (uint64_t{heads} * source.head_dim > kMaxWidth) {
    faults.invalid(std::to_string(heads) + " heads of " + std::to_string(source.head_dim) +
                   " are too wide; at most " + std::to_string(kMaxWidth) + " together");
  }
}

// A list of the model's layers, or of those for drafts as well, which follow.
bool counts_layers(const GgufSource& source, size_t entries) {
  const uint32_t drafts = source.fields.count(".nextn_predict_layers", 0, 0, kMaxLayers);
  return entries == source.layers || entries == source.layers + drafts;
}

// KV heads of the layers that attend; the others have none.
uint32_t read_kv_heads(GgufSource& source, uint32_t heads) {
  constexpr const char* kKey = ".attention.head_count_kv";
  const GgufFields& fields = source.fields;
  const GgufValue* value = fields.find(kKey);
  const bool some = source.family.gguf_attention == GgufAttention::in_some_layers;
  const auto list =
      some && value != nullptr && value->is_array() ? value->integers() : std::nullopt;
  if (some) {
    source.config["layer_types"] = std::vector<std::string>(source.layers, "full_attention");
  }
  if (!list) return fields.count(kKey, heads, 1, kMaxWidth);
  int64_t kv_heads = 0;
  bool sound = counts_layers(source, list->size());
  for (size_t i = 0; i < source.layers && sound; ++i) {
    const int64_t own = (*list)[i];
    if (own == 0) source.config["layer_types"][i] = "linear_attention";
    sound = own >= 0 && own <= kMaxWidth && (own == 0 || kv_heads == 0 || own == kv_heads);
    kv_heads = std::max(kv_heads, own);
  }
  if (!sound) {
    source.faults().unsupported(fields.name(kKey) + " is " + value->describe() +
                                "; expected 0, or one number of heads, for each of " +
                                std::to_string(source.layers) + " layers");
  }
  return kv_heads == 0 || !sound ? heads : static_cast<uint32_t>(kv_heads);
}

// A width where keys and values have the same; a fault where they differ.
uint32_t read_head_dim(const GgufSource& source, const char* k_key, const char* v_key,
                       uint32_t fallback) {
  const uint32_t k_dim = source.fields.count(k_key, fallback, 1, kMaxWidth);
  const uint32_t v_dim = source.fields.count(v_key, k_dim, 1, kMaxWidth);
  if (v_dim != k_dim) {
    source.faults().unsupported("values of " + std::to_string(v_dim) + " elements beside keys of " +
                                std::to_string(k_dim) + " are not built");
  }
  return k_dim;
}

// KV heads are the family's to read.
void read_window_heads(GgufSource& source) {
  const uint32_t heads = source.fields.need_count(".attention.head_count", 1, kMaxWidth);
  source.config["num_attention_heads"] = heads;
  source.head_dim = read_head_dim(source, ".attention.key_length", ".attention.value_length", 512);
  source.config["global_head_dim"] = source.head_dim;
  source.config["head_dim"] = read_head_dim(source, ".attention.key_length_swa",
                                            ".attention.value_length_swa", source.head_dim);
}

// That of the first layer; `fallback` 0: the key must be there.
uint32_t first_count(const GgufSource& source, const char* key, uint32_t fallback) {
  if (!source.fields.has(key)) {
    return fallback > 0 ? fallback : source.fields.need_count(key, 1, kMaxWidth);
  }
  const std::vector<double> all = source.fields.numbers(key, source.layers);
  if (!all.empty() && all.front() >= 1 && all.front() <= kMaxWidth) {
    return static_cast<uint32_t>(all.front());
  }
  source.faults().invalid(source.fields.name(key) + " is " + source.fields.find(key)->describe() +
                          "; expected a number from 1 to " + std::to_string(kMaxWidth));
  return 1;
}

// Those of layers that differ from the first are the family's to read.
void read_layer_heads(GgufSource& source, uint32_t hidden) {
  const uint32_t heads = first_count(source, ".attention.head_count", 0);
  source.config["num_attention_heads"] = heads;
  source.config["num_key_value_heads"] = first_count(source, ".attention.head_count_kv", heads);
  const uint32_t usual = std::max(hidden / heads, 1u);
  source.head_dim = source.fields.count(".attention.key_length", usual, 1, kMaxWidth);
  source.config["head_dim"] = source.head_dim;
  source.config["v_head_dim"] =
      source.fields.count(".attention.value_length", source.head_dim, 1, kMaxWidth);
}

void read_heads(GgufSource& source, uint32_t hidden) {
  const GgufFields& fields = source.fields;
  if (source.family.gguf_window_heads) return read_window_heads(source);
  if (source.family.gguf_layer_heads) return read_layer_heads(source, hidden);
  const uint32_t heads = fields.need_count(".attention.head_count", 1, kMaxWidth);
  if (source.family.gguf_latent) {
    source.config["num_attention_heads"] = heads;
    source.head_dim = fields.count(".rope.dimension_count", 2, 1, kMaxWidth);
    return;
  }
  const uint32_t kv_heads = read_kv_heads(source, heads);
  if (!fields.has(".attention.key_length") && hidden % heads != 0) {
    source.faults().invalid(fields.name(".embedding_length") + " " + std::to_string(hidden) +
                            " is not a multiple of " + fields.name(".attention.head_count") + " " +
                            std::to_string(heads));
  }
  source.head_dim =
      read_head_dim(source, ".attention.key_length", ".attention.value_length", hidden / heads);
  check_heads(source, heads, kv_heads);
  source.config["num_attention_heads"] = heads;
  source.config["num_key_value_heads"] = kv_heads;
  source.config["head_dim"] = source.head_dim;
}

void read_turned(GgufSource& source) {
  const GgufFields& fields = source.fields;
  source.turned = fields.count(".rope.dimension_count", source.head_dim, 1, kMaxWidth);
  // Of models in which nothing turns, converters write what heads without a key for their width
  // would have.
  const bool mixed = source.family.gguf_attention != GgufAttention::in_all_layers;
  if (mixed && !fields.flag(".rope.scaling.finetuned", true)) source.turned = source.head_dim;
  if (source.turned == source.head_dim) return;
  if (!source.family.gguf_partial_rotation || source.turned > source.head_dim) {
    source.faults().unsupported(fields.name(".rope.dimension_count") + " is " +
                                std::to_string(source.turned) + "; only whole heads (" +
                                std::to_string(source.head_dim) + ") are rotated");
    return;
  }
  double part = static_cast<double>(source.turned) / source.head_dim;
  if (std::floor(part * source.head_dim) < source.turned) part = std::nextafter(part, 1.0);
  source.config["partial_rotary_factor"] = part;
}

// The width of MLPs; where layers differ, of the first that has one. Families that have such layers
// look at the others themselves.
uint32_t read_mlp_width(const GgufSource& source, const char* key) {
  const GgufValue* value = source.fields.find(key);
  const bool list = value != nullptr && value->is_array() &&
                    (source.family.gguf_window_heads || source.fields.has(".altup.num_inputs") ||
                     source.family.gguf_attention == GgufAttention::in_some_layers);
  const auto widths = list ? value->integers() : std::nullopt;
  if (!widths) return source.fields.need_count(key, 1, kMaxWidth);
  const auto first = std::ranges::find_if(*widths, [](int64_t width) { return width != 0; });
  if (counts_layers(source, widths->size()) && first != widths->end() && *first >= 1 &&
      *first <= kMaxWidth) {
    return static_cast<uint32_t>(*first);
  }
  source.faults().invalid(source.fields.name(key) + " is " + value->describe() +
                          "; expected a width for each of " + std::to_string(source.layers) +
                          " layers");
  return 1;
}

// Factors that stop all frequencies but the first are what "proportional" is in such files; taken,
// and said in config.json.
void take_turning(GgufSource& source, std::vector<float>& factors) {
  const auto turning = static_cast<size_t>(
      std::ranges::find_if(factors, [](float factor) { return factor != 1.0f; }) - factors.begin());
  const auto stops = [](float factor) { return factor >= 1e29f; };
  if (turning == 0 ||
      !std::all_of(factors.begin() + static_cast<ptrdiff_t>(turning), factors.end(), stops)) {
    return;
  }
  double part = static_cast<double>(turning) / static_cast<double>(factors.size());
  while (std::floor(part * source.head_dim / 2.0) < static_cast<double>(turning)) {
    part = std::nextafter(part, 2.0);
  }
  source.config["partial_rotary_factor"] = part;
  factors.clear();
}

constexpr const char* kExpertWidth = ".expert_feed_forward_length";

void read_shape(GgufSource& source) {
  const GgufFields& fields = source.fields;
  const uint32_t hidden = fields.need_count(".embedding_length", 1, kMaxWidth);
  source.config["hidden_size"] = hidden;
  const uint32_t all = fields.need_count(".block_count", 1, kMaxLayers);
  // Layers for drafts follow the others.
  source.layers = all - fields.count(".nextn_predict_layers", 0, 0, all - 1);
  source.config["num_hidden_layers"] = source.layers;
  if (source.attends()) {
    // Models with experts alone need not have it.
    const bool experts = !fields.has(".feed_forward_length") && fields.has(kExpertWidth);
    source.config["intermediate_size"] =
        read_mlp_width(source, experts ? kExpertWidth : ".feed_forward_length");
    read_heads(source, hidden);
  }
  source.context_tokens = fields.need_count(".context_length", 1, kMaxWidth);
  if (const GgufTensor* embedding = source.tensor("token_embd.weight")) {
    source.vocabulary = static_cast<uint32_t>(std::min<uint64_t>(embedding->extents[0], kMaxWidth));
  } else if (source.vocabulary == 0) {
    source.faults().invalid(
        "tensor 'token_embd.weight' is missing; this file holds no model to run");
  }
  if (source.attends()) read_turned(source);
  source.config["vocab_size"] = source.vocabulary;
  source.config["max_position_embeddings"] = source.context_tokens;
}

// Biases and norms stand in all layers or in none.
void read_features(GgufSource& source) {
  const GgufFields& fields = source.fields;
  if (source.attends()) {
    source.config["attention_bias"] =
        source.has_tensor("blk.0.attn_q.bias") || source.has_tensor("blk.0.attn_qkv.bias");
    source.config["mlp_bias"] = source.has_tensor("blk.0.ffn_gate.bias");
  }
  source.config["tie_word_embeddings"] = !source.has_tensor("output.weight");
  constexpr const char* kRms = ".attention.layer_norm_rms_epsilon";
  constexpr const char* kLayer = ".attention.layer_norm_epsilon";
  const double eps = fields.number(kRms, fields.number(kLayer, 1e-5, 1e-20, 0.999), 1e-20, 0.999);
  source.config[std::string(source.family.gguf_eps_key)] = shortest_double(static_cast<float>(eps));
}

void read_windows(GgufSource& source) {
  const GgufFields& fields = source.fields;
  const uint32_t window = fields.count(".attention.sliding_window", 0, 0, kMaxWidth);
  const bool none = window == 0 || window >= source.context_tokens;
  source.config["sliding_window"] = none ? ordered_json(nullptr) : ordered_json(window);
  source.config["use_sliding_window"] = !none;
  if (none) return;
  const GgufValue* pattern = fields.find(".attention.sliding_window_pattern");
  if (pattern == nullptr) {
    if (source.family.gguf_windows != GgufWindows::by_pattern) return;
    source.faults().unsupported(fields.name(".attention.sliding_window") +
                                " does not say which layers it is for; expected " +
                                fields.name(".attention.sliding_window_pattern") + " beside it");
    return;
  }
  auto layers = pattern->integers();
  if (layers && counts_layers(source, layers->size())) layers->resize(source.layers);
  if (!layers || layers->size() != source.layers) {
    // A period of the family's own rule, which newer converters write.
    if (pattern->integer() && source.family.gguf_windows == GgufWindows::by_family) return;
    source.faults().unsupported(fields.name(".attention.sliding_window_pattern") + " is " +
                                pattern->describe() + "; expected true or false for each of " +
                                std::to_string(source.layers) + " layers");
    return;
  }
  ordered_json types = ordered_json::array();
  for (const int64_t slides : *layers) {
    source.sliding.push_back(slides != 0);
    types.push_back(slides != 0 ? "sliding_attention" : "full_attention");
  }
  source.config["layer_types"] = std::move(types);
}

// Values that change the arithmetic in ways that a family may not know, with what changes nothing.
struct RefusedKey {
  std::string_view key;
  double neutral;
  std::string_view what;
};
constexpr RefusedKey kRefusedKeys[] = {
    {".expert_count", 0, "mixture of experts"},
    {".attention.scale", 0, "another attention scale"},
    {".attention.max_alibi_bias", 0, "position biases"},
    {".attention.clamp_kqv", 0, "clipped q, k and v"},
    {".attention.q_lora_rank", 0, "latent attention"},
    {".attention.kv_lora_rank", 0, "latent attention"},
    {".attn_logit_softcapping", 0, "a soft cap on attention scores"},
    {".final_logit_softcapping", 0, "a soft cap on logits"},
    {".logit_scale", 1, "scaled logits"},
    {".embedding_scale", 1, "scaled embeddings"},
    {".residual_scale", 1, "scaled residuals"},
    {".rope.scaling.attn_factor", 1, "another attention scale"},
};

void refuse_other_arithmetic(const GgufFields& fields) {
  for (const RefusedKey& refused : kRefusedKeys) {
    if (fields.asked(refused.key)) continue;
    const double value = fields.number(refused.key, refused.neutral, -1e30, 1e30);
    if (value == refused.neutral) continue;
    fields.faults().unsupported(fields.name(refused.key) + " is " +
                                fields.find(refused.key)->describe() + "; " +
                                std::string(refused.what) + " is not built");
  }
  if (!fields.flag(".attention.causal", true)) {
    fields.faults().unsupported(fields.name(".attention.causal") +
                                " is false; Tenon runs causal attention alone");
  }
  if (!fields.asked(".use_parallel_residual") && fields.flag(".use_parallel_residual", false)) {
    fields.faults().unsupported(fields.name(".use_parallel_residual") +
                                " is true; parallel residuals are not built");
  }
}

// Ids beyond the vocabulary mean none: converters write the default of another vocabulary.
void read_tokens(GgufSource& source) {
  const auto id_of = [&](std::string_view key) -> std::optional<uint32_t> {
    const uint32_t id = source.fields.count(key, 0xffffffffu, 0, 0xffffffffu);
    return id < source.vocabulary ? std::optional(id) : std::nullopt;
  };
  const auto bos = id_of("tokenizer.ggml.bos_token_id");
  source.config["bos_token_id"] = bos ? ordered_json(*bos) : ordered_json(nullptr);
  source.ends = read_gguf_ends(source.fields, source.vocabulary);
  const std::vector<TokenId> ends = end_tokens(source.ends);
  source.config["eos_token_id"] = ends.empty() ? ordered_json(nullptr) : ordered_json(ends);
}

// Experts make a Llama a Mixtral, which has that name too. A Granite 4 that turns without any of
// Granite's factors is a Bamba.
const Family* family_of_file(const GgufFile& file, const std::string& architecture,
                             Faults& faults) {
  const Family* family = find_family_by_architecture(architecture);
  const GgufFields fields(file, architecture, faults);
  if (family == find_family("granitemoehybrid") && !fields.has(".attention.scale") &&
      fields.flag(".rope.scaling.finetuned", false)) {
    return find_family("bamba");
  }
  const bool experts = fields.count(".expert_count", 0, 0, kMaxWidth) > 0;
  return experts && family == find_family("llama") ? find_family("mixtral") : family;
}

// The family by its name in such files, unless it said more itself. A window makes a Llama a
// Mistral, which has that name too.
void name_family(GgufSource& source) {
  const Family* family = &source.family;
  if (family == find_family("llama") && !source.config["sliding_window"].is_null()) {
    family = find_family("mistral");
  }
  if (source.config.contains("model_type")) {
    family = find_family(source.config["model_type"].get<std::string>());
  }
  source.config["model_type"] = family->model_type;
  source.config["architectures"] = {std::string(family->class_stem) + "ForCausalLM"};
}

// Biases are what the file has: config.json knows fewer combinations.
void apply_biases(const GgufSource& source, ModelPlan& plan) {
  const Family& family = source.family;
  if (family.gguf_latent || family.gguf_attention != GgufAttention::in_all_layers) return;
  if (!source.has_tensor("blk.0.attn_q.weight")) return;
  for (LayerPlan& layer : plan.layers) {
    layer.attention.qkv_bias = source.has_tensor("blk.0.attn_q.bias");
    layer.attention.output_bias = source.has_tensor("blk.0.attn_output.bias");
    layer.mlp.bias = source.has_tensor("blk.0.ffn_down.bias");
  }
}

}  // namespace

double shortest_double(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double back = 0.0;
  std::from_chars(text, end, back);
  return back;
}

Result<GgufConfig> gguf_model_config(const GgufFile& file, const GgufBytes& bytes,
                                     std::string_view name) {
  Faults faults;
  const std::string architecture = GgufFields(file, "", faults).text("general.architecture", "");
  const Family* family = family_of_file(file, architecture, faults);
  if (family == nullptr) {
    faults.unsupported("'general.architecture' is " + in_quotes(architecture) +
                       ", which is not built" + nearest_family(architecture));
    return faults.status(name);
  }
  return gguf_layers_config(file, bytes, name, *family, 0);
}

Result<GgufConfig> gguf_layers_config(const GgufFile& file, const GgufBytes& bytes,
                                      std::string_view name, const Family& of,
                                      uint32_t vocabulary) {
  Faults faults;
  const Family* family = &of;
  const std::string architecture = GgufFields(file, "", faults).text("general.architecture", "");
  const GgufFields fields(file, architecture, faults);
  GgufSource source{file, bytes, fields, of};
  source.vocabulary = vocabulary;
  read_shape(source);
  // What follows is measured by the shape.
  if (faults.any()) return faults.status(name);
  read_features(source);
  std::vector<float> factors;
  if (source.attends()) {
    source.config["rope_theta"] = fields.number(".rope.freq_base", family->gguf_theta, 1e-6, 1e30);
    source.config["rope_scaling"] = read_gguf_rope_scaling(source);
    factors = read_gguf_rope_factors(source);
    if (family->gguf_window_heads && !factors.empty()) take_turning(source, factors);
    read_windows(source);
  }
  read_tokens(source);
  if (family->from_gguf != nullptr) family->from_gguf(fields, source.config);
  refuse_other_arithmetic(fields);
  name_family(source);
  if (faults.any()) return faults.status(name);
  GgufConfig config;
  config.json = source.config.dump();
  TENON_ASSIGN_OR_RETURN(config.plan, parse_model_config(config.json, name));
  config.plan.ignored_keys.clear();
  config.ends = std::move(source.ends);
  apply_biases(source, config.plan);
  // Mistral's config.json cannot say it of single layers.
  set_windows(source.sliding, fields.count(".attention.sliding_window", 0, 0, kMaxWidth),
              config.plan);
  apply_gguf_rope_factors(source, std::move(factors), config.plan);
  if (faults.any()) return faults.status(name);
  return config;
}

}  // namespace tenon
