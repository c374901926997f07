#include "core/model/model_config.h"

#include <cmath>

#include "core/base/quote.h"
#include "core/model/json_fields.h"
#include "core/model/model_family.h"

namespace tenon {
namespace {

using nlohmann::json;

// Widths are 32-bit in the boundary; their products are checked where they are formed.
constexpr uint32_t kMaxWidth = 0x7fffffff;
constexpr uint32_t kMaxLayers = 65535;

// The family that the config names, by model_type or else by its architectures.
const ModelFamily* read_family(const JsonFields& config) {
  const std::string type = config.text("model_type", "");
  const ModelFamily* family = type.empty() ? nullptr : find_model_family(type);
  if (!type.empty() && family == nullptr) {
    config.faults().unsupported("model_type " + in_quotes(type) + " is not built; there are " +
                                model_family_names());
    return nullptr;
  }
  const json* classes = config.find("architectures");
  const bool named = classes != nullptr && classes->is_array() && !classes->empty();
  if (!named) {
    if (family == nullptr) {
      config.faults().invalid("neither 'model_type' nor 'architectures' names the model; one must");
    }
    return family;
  }
  const std::string name =
      classes->front().is_string() ? classes->front().get<std::string>() : describe(*classes);
  const ModelFamily* by_class = find_model_family_by_class(name);
  if (by_class == nullptr || (family != nullptr && by_class != family)) {
    config.faults().unsupported(
        "architecture " + in_quotes(name) + " is not built" +
        (family ? " for model_type " + in_quotes(type) + "; expected '" : "; expected one like '") +
        std::string(family ? family->class_stem : "Llama") + "ForCausalLM'");
    return nullptr;
  }
  return by_class;
}

void read_shape(const JsonFields& config, const ModelFamily& family, ModelConfig& out) {
  out.vocabulary = config.count("vocab_size", family.vocabulary, 1, kMaxWidth);
  out.hidden = config.count("hidden_size", 4096, 1, kMaxWidth);
  out.intermediate = config.count("intermediate_size", family.intermediate, 1, kMaxWidth);
  out.layers = config.count("num_hidden_layers", 32, 1, kMaxLayers);
  out.heads = config.count("num_attention_heads", 32, 1, kMaxWidth);
  const char* kv_key = "num_key_value_heads";
  const uint32_t kv_default =
      config.is_null(kv_key) ? out.heads : family.kv_heads.value_or(out.heads);
  out.kv_heads = config.count(kv_key, kv_default, 1, kMaxWidth);
  out.context_tokens = config.count("max_position_embeddings", family.context_tokens, 1, kMaxWidth);

  uint32_t head_dim = family.head_dim;
  if (head_dim == 0 && !config.has("head_dim")) {
    if (out.hidden % out.heads != 0) {
      config.faults().invalid("'hidden_size' " + std::to_string(out.hidden) +
                              " is not a multiple of 'num_attention_heads' " +
                              std::to_string(out.heads) + " and 'head_dim' is not given");
    }
    head_dim = out.hidden / out.heads;
  }
  out.head_dim = config.count("head_dim", head_dim, 1, kMaxWidth);
  if (out.heads % out.kv_heads != 0) {
    config.faults().invalid("'num_attention_heads' " + std::to_string(out.heads) +
                            " is not a multiple of 'num_key_value_heads' " +
                            std::to_string(out.kv_heads));
  }
  if (out.head_dim % 2 != 0) {
    config.faults().invalid("head_dim " + std::to_string(out.head_dim) +
                            " is odd; rotary embedding turns pairs");
  }
  if (uint64_t{out.heads} * out.head_dim > kMaxWidth) {
    config.faults().invalid(std::to_string(out.heads) + " heads of " +
                            std::to_string(out.head_dim) + " are too wide; at most " +
                            std::to_string(kMaxWidth) + " together");
  }
}

void read_norms_and_biases(const JsonFields& config, const ModelFamily& family, ModelConfig& out) {
  out.norm_eps = static_cast<float>(config.number("rms_norm_eps", 1e-6));
  if (!(out.norm_eps > 0.0f && out.norm_eps < 1.0f)) {
    config.faults().invalid("'rms_norm_eps' is " + describe(*config.find("rms_norm_eps")) +
                            "; expected a number between 0 and 1");
  }
  const bool by_key =
      family.attention_bias == BiasRule::by_key && config.flag("attention_bias", false);
  out.qkv_bias = by_key || family.attention_bias == BiasRule::qkv_always;
  out.output_bias = by_key;
  out.mlp_bias = family.mlp_bias_key && config.flag("mlp_bias", false);
  out.qk_norm = family.qk_norm;
  out.tied_embeddings = config.flag("tie_word_embeddings", false);
}

// A number of the rotary settings; `fallback` 0 = the key must be there. The range is far wider
// than any use and keeps every frequency finite.
double rope_number(const JsonFields& rope, const char* key, double fallback) {
  if (fallback == 0.0 && !rope.has(key)) {
    rope.faults().invalid(rope.name(key) + " is missing; this rope type needs it");
    return 1.0;
  }
  const double value = rope.number(key, fallback == 0.0 ? 1.0 : fallback);
  if (value >= 1e-6 && value <= 1e30) return value;
  rope.faults().invalid(rope.name(key) + " is " + describe(*rope.find(key)) +
                        "; expected a number from 1e-6 to 1e30");
  return 1.0;
}

void read_llama3_scaling(const JsonFields& config, const JsonFields& rope, ModelConfig& out) {
  RopeScaling& scaling = out.rope_scaling;
  scaling.kind = RopeScalingKind::llama3;
  scaling.factor = rope_number(rope, "factor", 0.0);
  scaling.low_freq_factor = rope_number(rope, "low_freq_factor", 0.0);
  scaling.high_freq_factor = rope_number(rope, "high_freq_factor", 0.0);
  const char* key = "original_max_position_embeddings";
  const uint32_t original = rope.count(key, out.context_tokens, 1, kMaxWidth);
  scaling.original_context_tokens = config.count(key, original, 1, kMaxWidth);
  if (scaling.high_freq_factor <= scaling.low_freq_factor && !rope.faults().any()) {
    rope.faults().invalid(rope.name("high_freq_factor") + " must be above 'low_freq_factor'");
  }
}

void read_rope_type(const JsonFields& config, const JsonFields& rope, ModelConfig& out) {
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  for (const char* key : {"full_attention", "sliding_attention", "mrope_section"}) {
    if (!rope.has(key)) continue;
    rope.faults().unsupported(rope.name(key) + " is not built; one rotary setting for all layers");
  }
  if (type == "linear") {
    out.rope_scaling.kind = RopeScalingKind::linear;
    out.rope_scaling.factor = rope_number(rope, "factor", 0.0);
  } else if (type == "llama3") {
    read_llama3_scaling(config, rope, out);
  } else if (type != "default") {
    rope.faults().unsupported("rope type " + in_quotes(type) +
                              " is not built; there are default, linear, llama3");
  }
}

// Old files have rope_theta beside rope_scaling, newer ones all of it in rope_parameters. Where
// both stand, rope_scaling counts, as in transformers.
void read_rope(const JsonFields& config, ModelConfig& out) {
  out.rope_theta = rope_number(config, "rope_theta", 10000.0);
  const json* scaling = config.find("rope_scaling");
  const bool old_style = scaling != nullptr && !(scaling->is_object() && scaling->empty());
  const std::optional<JsonFields> rope =
      config.object(old_style ? "rope_scaling" : "rope_parameters");
  if (rope) {
    out.rope_theta = rope_number(*rope, "rope_theta", out.rope_theta);
    read_rope_type(config, *rope, out);
  }
  for (const JsonFields& fields : {config, rope.value_or(config)}) {
    if (fields.number("partial_rotary_factor", 1.0) == 1.0) continue;
    config.faults().unsupported(fields.name("partial_rotary_factor") + " is " +
                                describe(*fields.find("partial_rotary_factor")) +
                                "; only whole heads (1.0) are rotated");
    break;
  }
}

// Which layers the config says have a window, where the family follows layer_types.
void apply_layer_types(const JsonFields& config, uint32_t window, ModelConfig& out) {
  const json* types = config.find("layer_types");
  if (types == nullptr) return;
  if (!types->is_array() || types->size() != out.layers) {
    config.faults().invalid("'layer_types' is " + describe(*types) + "; expected a list of " +
                            std::to_string(out.layers) + ", one type a layer");
    return;
  }
  for (uint32_t layer = 0; layer < out.layers; ++layer) {
    const json& type = (*types)[layer];
    const bool sliding = type == "sliding_attention";
    if (!sliding && type != "full_attention") {
      config.faults().unsupported("'layer_types' has " + describe(type) +
                                  "; there are \"full_attention\" and \"sliding_attention\"");
      return;
    }
    if (sliding && window == 0) {
      config.faults().invalid("'layer_types' has sliding layers but there is no sliding window");
      return;
    }
    out.window_tokens[layer] = sliding ? window : 0;
  }
}

void read_windows(const JsonFields& config, const ModelFamily& family, ModelConfig& out) {
  out.window_tokens.assign(out.layers, 0);
  if (family.window == WindowRule::none) return;
  const char* key = "sliding_window";
  uint32_t window = config.is_null(key) ? 0 : config.count(key, 4096, 1, kMaxWidth);
  if (family.window == WindowRule::every_layer) {
    out.window_tokens.assign(out.layers, window);
    return;
  }
  if (!config.flag("use_sliding_window", false)) window = 0;
  const uint32_t first = config.count("max_window_layers", 28, 0, kMaxWidth);
  for (uint32_t layer = first; layer < out.layers; ++layer) out.window_tokens[layer] = window;
  apply_layer_types(config, window, out);
}

// Keys that change the arithmetic in ways that are not built, with the value that changes nothing.
struct RefusedKey {
  const char* key;
  double neutral;
  const char* what;
};
constexpr RefusedKey kRefusedKeys[] = {
    {"num_local_experts", 0, "mixture of experts"},
    {"num_experts", 0, "mixture of experts"},
    {"n_routed_experts", 0, "mixture of experts"},
    {"num_experts_per_tok", 0, "mixture of experts"},
    {"moe_intermediate_size", 0, "mixture of experts"},
    {"kv_lora_rank", 0, "latent attention"},
    {"attn_logit_softcapping", 0, "a soft cap on attention scores"},
    {"final_logit_softcapping", 0, "a soft cap on logits"},
    {"query_pre_attn_scalar", 0, "another attention scale"},
    {"attention_multiplier", 0, "another attention scale"},
    {"embedding_multiplier", 1, "scaled embeddings"},
    {"residual_multiplier", 1, "scaled residuals"},
    {"logits_scaling", 1, "scaled logits"},
    {"logit_scale", 1, "scaled logits"},
    {"clip_qkv", 0, "clipped q, k and v"},
    {"alibi", 0, "position biases"},
    {"use_qk_norm", 0, "another norm of q and k"},
    {"qk_layernorm", 0, "another norm of q and k"},
    {"is_encoder_decoder", 0, "an encoder"},
    {"add_cross_attention", 0, "cross attention"},
};

// Whether a value is absent in spirit: false, or the number that changes nothing.
bool is_neutral(const json& value, double neutral) {
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_number() && value.get<double>() == neutral;
}

void refuse_other_arithmetic(const JsonFields& config) {
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    const std::string act = config.text(key, "silu");
    if (act == "silu" || act == "swish") continue;
    config.faults().unsupported(in_quotes(key) + " is " + in_quotes(act) +
                                "; only 'silu' is built");
  }
  if (const json* quantization = config.find("quantization_config")) {
    const std::string method = quantization->is_object() && quantization->contains("quant_method")
                                   ? describe((*quantization)["quant_method"])
                                   : describe(*quantization);
    config.faults().unsupported("'quantization_config' (" + method +
                                ") is not built; open the checkpoint that was quantised from");
  }
  for (const RefusedKey& refused : kRefusedKeys) {
    const json* value = config.find(refused.key);
    if (value == nullptr || is_neutral(*value, refused.neutral)) continue;
    config.faults().unsupported(in_quotes(refused.key) + " is " + describe(*value) + "; " +
                                refused.what + " is not built");
  }
  // Splits sums for a bit-exact match with a training set-up; any count is the same mathematics.
  (void)config.count("pretraining_tp", 1, 1, kMaxWidth);
}

void read_tokens(const JsonFields& config, const ModelFamily& family, ModelConfig& out) {
  const auto ids = [](TokenId id) {
    return id == kNoToken ? std::vector<TokenId>() : std::vector<TokenId>{id};
  };
  // A family's own ids need not exist in a smaller vocabulary.
  const auto within = [&](TokenId id) {
    return id < static_cast<int64_t>(out.vocabulary) ? id : kNoToken;
  };
  const auto bos = config.token_ids("bos_token_id", ids(within(family.bos)), out.vocabulary);
  if (bos.size() > 1) config.faults().invalid("'bos_token_id' is a list; expected one id");
  if (!bos.empty()) out.bos = bos.front();
  out.eos = config.token_ids("eos_token_id", ids(within(family.eos)), out.vocabulary);
}

}  // namespace

Result<ModelConfig> parse_model_config(std::string_view text, std::string_view name) {
  Result<json> parsed = parse_json_object(text);
  if (!parsed.ok()) return with_context(name, parsed.status());
  Faults faults;
  const JsonFields fields(*parsed, faults);
  const ModelFamily* family = read_family(fields);
  if (family == nullptr) return faults.status(name);
  ModelConfig config;
  config.architecture = family->model_type;
  read_shape(fields, *family, config);
  read_norms_and_biases(fields, *family, config);
  read_rope(fields, config);
  read_windows(fields, *family, config);
  read_tokens(fields, *family, config);
  refuse_other_arithmetic(fields);
  if (faults.any()) return faults.status(name);
  return config;
}

Result<GenerationDefaults> parse_generation_config(std::string_view text, std::string_view name) {
  Result<json> parsed = parse_json_object(text);
  if (!parsed.ok()) return with_context(name, parsed.status());
  Faults faults;
  const JsonFields fields(*parsed, faults);
  GenerationDefaults defaults;
  const auto number = [&](const char* key, double max) -> std::optional<float> {
    if (!fields.has(key)) return std::nullopt;
    const double value = fields.number(key, 0.0);
    if (value < 0.0 || value > max) {
      faults.invalid(fields.name(key) + " is " + describe(*fields.find(key)) +
                     "; expected a number from 0 to " + std::to_string(static_cast<int>(max)));
    }
    return static_cast<float>(value);
  };
  defaults.temperature = number("temperature", 1000.0);
  defaults.top_p = number("top_p", 1.0);
  if (fields.has("top_k")) defaults.top_k = fields.count("top_k", 0, 0, kMaxWidth);
  // Without sampling the most likely token is taken, whatever the temperature says.
  if (!fields.flag("do_sample", true)) defaults.temperature = 0.0f;
  defaults.eos = fields.token_ids("eos_token_id", {}, kMaxWidth);
  if (faults.any()) return faults.status(name);
  return defaults;
}

}  // namespace tenon
