#include "core/model/families/reading/config_keys.h"

#include <algorithm>
#include <cmath>

#include "core/base/log.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

using nlohmann::json;

void check_shape(const JsonFields& config, const Shape& shape, const ShapeKeys& keys,
                 bool rotates) {
  Faults& faults = config.faults();
  if (shape.heads % shape.kv_heads != 0) {
    faults.invalid(config.name(keys.heads) + " " + std::to_string(shape.heads) +
                   " is not a multiple of " + config.name(keys.kv_heads) + " " +
                   std::to_string(shape.kv_heads));
  }
  if (rotates && shape.head_dim % 2 != 0) {
    faults.invalid("head_dim " + std::to_string(shape.head_dim) +
                   " is odd; rotary embedding turns pairs");
  }
  if (uint64_t{shape.heads} * shape.head_dim > kMaxWidth) {
    faults.invalid(std::to_string(shape.heads) + " heads of " + std::to_string(shape.head_dim) +
                   " are too wide; at most " + std::to_string(kMaxWidth) + " together");
  }
}

uint32_t read_head_dim(const JsonFields& config, uint32_t fallback, const ShapeKeys& keys,
                       const Shape& shape) {
  const bool given = keys.head_dim != nullptr && config.has(keys.head_dim);
  if (fallback == 0 && !given) {
    if (shape.hidden % shape.heads != 0) {
      config.faults().invalid(config.name(keys.hidden) + " " + std::to_string(shape.hidden) +
                              " is not a multiple of " + config.name(keys.heads) + " " +
                              std::to_string(shape.heads) +
                              (keys.head_dim != nullptr ? " and 'head_dim' is not given" : ""));
    }
    fallback = std::max(shape.hidden / shape.heads, 1u);
  }
  return given ? config.count(keys.head_dim, fallback, 1, kMaxWidth) : fallback;
}

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
constexpr NamedActivation kActivations[] = {
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"gelu", Activation::gelu},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_python", Activation::gelu},
    {"gelu_python_tanh", Activation::gelu_tanh},
    {"gelu_accurate", Activation::gelu_tanh},
    {"relu", Activation::relu},
    {"relu2", Activation::relu_squared},
};

}  // namespace

namespace {

// transformers writes a family's own ids into the config of a model whose vocabulary lacks them,
// and reads them: no text has such a token.
std::vector<TokenId> drop_unknown(std::vector<TokenId> ids, const std::string& name,
                                  uint32_t vocabulary) {
  std::erase_if(ids, [&](TokenId id) {
    const bool unknown = id >= static_cast<int64_t>(vocabulary);
    if (unknown) {
      log(LogLevel::warning, "model",
          name + " is " + std::to_string(id) + ", which no text has: the vocabulary has " +
              std::to_string(vocabulary) + " tokens");
    }
    return unknown;
  });
  return ids;
}

}  // namespace

void read_ends(const JsonFields& config, const ShapeDefaults& defaults, ModelPlan& plan) {
  // A family's own ids need not exist in a smaller vocabulary.
  const auto ids = [&](TokenId id) {
    const bool there = id != kNoToken && id < static_cast<int64_t>(plan.vocabulary);
    return there ? std::vector<TokenId>{id} : std::vector<TokenId>();
  };
  const auto read = [&](const char* key, TokenId usual) {
    return config.token_ids(key, ids(usual), kMaxWidth);
  };
  const auto bos = read("bos_token_id", defaults.bos);
  if (bos.size() > 1) config.faults().invalid("'bos_token_id' is a list; expected one id");
  const auto known = drop_unknown(bos, config.name("bos_token_id"), plan.vocabulary);
  if (!known.empty()) plan.bos = known.front();
  plan.eos = drop_unknown(read("eos_token_id", defaults.eos), config.name("eos_token_id"),
                          plan.vocabulary);
}

void read_default_ends(const JsonFields& config, std::initializer_list<TokenId> ends,
                       ModelPlan& plan) {
  if (config.has("eos_token_id")) return;
  for (const TokenId id : ends) {
    if (id < static_cast<int64_t>(plan.vocabulary)) plan.eos.push_back(id);
  }
}

uint32_t head_dim_unless_null(const JsonFields& config, uint32_t fallback) {
  return config.is_null("head_dim") ? 0 : fallback;
}

const char* general_or(const JsonFields& config, const char* general, const char* own) {
  return config.has(general) ? general : own;
}

Shape read_shape(const JsonFields& config, const ShapeDefaults& defaults, ModelPlan& plan,
                 const ShapeKeys& keys) {
  Shape shape;
  plan.vocabulary = config.count("vocab_size", defaults.vocabulary, 1, kMaxWidth);
  shape.hidden = config.count(keys.hidden, defaults.hidden, 1, kMaxWidth);
  shape.intermediate = defaults.intermediate;
  if (keys.intermediate != nullptr) {
    shape.intermediate = config.count(keys.intermediate, defaults.intermediate, 1, kMaxWidth);
  }
  shape.layers = config.count(keys.layers, defaults.layers, 1, kMaxLayers);
  shape.heads = config.count(keys.heads, defaults.heads, 1, kMaxWidth);
  shape.kv_heads = shape.heads;
  if (keys.kv_heads != nullptr) {
    const uint32_t fallback =
        config.is_null(keys.kv_heads) ? shape.heads : defaults.kv_heads.value_or(shape.heads);
    shape.kv_heads = config.count(keys.kv_heads, fallback, 1, kMaxWidth);
  }
  plan.context_tokens = config.count(keys.context_tokens, defaults.context_tokens, 1, kMaxWidth);
  shape.head_dim = read_head_dim(config, defaults.head_dim, keys, shape);
  check_shape(config, shape, keys, defaults.rotates);
  plan.hidden = shape.hidden;
  plan.tied_embeddings = config.flag("tie_word_embeddings", defaults.tied);
  read_ends(config, defaults, plan);
  return shape;
}

// The range is far wider than any use and keeps every frequency finite.
double bounded_number(const JsonFields& rope, const char* key, double fallback) {
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

float read_eps(const JsonFields& config, const char* key, double fallback) {
  const auto eps = static_cast<float>(config.number(key, fallback));
  if (eps > 0.0f && eps < 1.0f) return eps;
  config.faults().invalid(config.name(key) + " is " + describe(*config.find(key)) +
                          "; expected a number between 0 and 1");
  return static_cast<float>(fallback);
}

Activation read_activation(const JsonFields& config, std::initializer_list<const char*> keys,
                           std::string_view fallback) {
  const char* key = *keys.begin();
  for (const char* other : keys) {
    if (config.has(other) && !config.has(key)) key = other;
  }
  const std::string name = config.text(key, fallback);
  const auto* found = std::ranges::find(kActivations, name, &NamedActivation::name);
  if (found != std::end(kActivations)) return found->activation;
  config.faults().unsupported(config.name(key) + " is " + in_quotes(name) +
                              ", which is not built; there are silu, gelu, gelu_pytorch_tanh, "
                              "relu and relu2");
  return Activation::silu;
}

float read_multiplier(const JsonFields& config, const char* key) {
  return static_cast<float>(bounded_number(config, key, 1.0));
}

std::vector<bool> read_sliding_layers(const JsonFields& config, size_t layers) {
  const json* types = config.find("layer_types");
  if (types == nullptr) return {};
  if (!types->is_array() || types->size() != layers) {
    config.faults().invalid("'layer_types' is " + describe(*types) + "; expected a list of " +
                            std::to_string(layers) + ", one type a layer");
    return {};
  }
  std::vector<bool> sliding;
  for (const json& type : *types) {
    sliding.push_back(type == "sliding_attention");
    if (sliding.back() || type == "full_attention") continue;
    config.faults().unsupported("'layer_types' has " + describe(type) +
                                "; there are \"full_attention\" and \"sliding_attention\"");
    return {};
  }
  return sliding;
}

void expect_window(const JsonFields& config, const std::vector<bool>& sliding, uint32_t window) {
  if (window != 0 || std::ranges::find(sliding, true) == sliding.end()) return;
  config.faults().invalid("'layer_types' has sliding layers but there is no sliding window");
}

void set_windows(const std::vector<bool>& sliding, uint32_t window, ModelPlan& plan) {
  for (size_t i = 0; i < sliding.size() && i < plan.layers.size(); ++i) {
    plan.layers[i].attention.window_tokens = sliding[i] ? window : 0;
  }
}

void windows_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  config.erase("use_sliding_window");
  const uint32_t window = fields.count(".attention.sliding_window", 0, 0, kMaxWidth);
  if (window == 0) return;
  config["sliding_window"] = window;
  const GgufValue* pattern = fields.find(".attention.sliding_window_pattern");
  const auto slides = pattern != nullptr ? pattern->integers() : std::nullopt;
  if (!slides || config.contains("layer_types")) return;
  // Those of layers for drafts may follow.
  const size_t layers = std::min(slides->size(), config["num_hidden_layers"].get<size_t>());
  for (size_t i = 0; i < layers; ++i) {
    config["layer_types"].push_back((*slides)[i] != 0 ? "sliding_attention" : "full_attention");
  }
}

void use_alibi(const JsonFields& config, const char* heads_key, float max_bias,
               SelfAttentionPlan& attention) {
  // Slopes are kept for each head; far more than any model has.
  constexpr uint32_t kMostHeads = 1u << 16;
  attention.rope = -1;
  attention.alibi_max_bias = max_bias;
  if (attention.heads <= kMostHeads) return;
  config.faults().invalid(config.name(heads_key) + " is " + std::to_string(attention.heads) +
                          "; with ALiBi there are at most " + std::to_string(kMostHeads));
  attention.heads = attention.kv_heads = 1;
}

LayerPlan llama_layer(const Shape& shape, float eps) {
  LayerPlan layer;
  layer.attention_norm = layer.mlp_norm = {.kind = NormKind::rms, .eps = eps};
  layer.attention.heads = shape.heads;
  layer.attention.kv_heads = shape.kv_heads;
  layer.attention.head_dim = shape.head_dim;
  layer.attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  layer.mlp.width = shape.intermediate;
  return layer;
}

}  // namespace tenon
