#include "core/model/families/reading/recurrence.h"

#include <algorithm>
#include <cmath>

#include "core/base/quote.h"

namespace tenon {
namespace {

using nlohmann::json;

constexpr uint32_t kMaxExpansion = 64;

// transformers writes {"__float__": "Infinity"}.
std::optional<float> as_limit(const json& value) {
  if (is_spelled_infinity(value)) return std::numeric_limits<float>::infinity();
  if (!value.is_number()) return std::nullopt;
  const auto limit = static_cast<float>(value.get<double>());
  return limit >= 0.0f ? std::optional(limit) : std::nullopt;
}

void read_step_limits(const JsonFields& config, RecurrentPlan& recurrent) {
  constexpr const char* kKey = "time_step_limit";
  const json* limits = config.find(kKey);
  if (limits == nullptr) return;
  if (limits->is_array() && limits->size() == 2) {
    const auto least = as_limit((*limits)[0]), most = as_limit((*limits)[1]);
    if (least && most && *least <= *most) {
      recurrent.least_step = *least;
      recurrent.most_step = *most;
      return;
    }
  }
  config.faults().invalid(config.name(kKey) + " is " + describe(*limits) +
                          "; expected the least and the most step, from 0 to Infinity");
}

// The widths of products are 32-bit.
void check_widths(const JsonFields& config, const RecurrentPlan& recurrent, uint32_t inner) {
  const uint64_t both = uint64_t{recurrent.groups} * recurrent.state;
  if (uint64_t{inner} + 2 * both + recurrent.heads > kMaxWidth ||
      uint64_t{inner} * recurrent.state > kMaxWidth) {
    config.faults().invalid("states of " + std::to_string(recurrent.state) + " for " +
                            std::to_string(inner) + " channels are too wide; at most " +
                            std::to_string(kMaxWidth) + " numbers together");
  }
}

void check_heads(const JsonFields& config, const RecurrentPlan& recurrent, uint32_t inner,
                 const Mamba2Keys& keys) {
  const auto text = [](uint32_t number) { return std::to_string(number); };
  if (uint64_t{recurrent.heads} * recurrent.head_dim != inner) {
    config.faults().invalid(text(recurrent.heads) + " heads (" + config.name(keys.heads) + ") of " +
                            text(recurrent.head_dim) + " (" + config.name(keys.head_dim) +
                            ") are not the inner width " + text(inner) + " (" +
                            (keys.inner != nullptr && !config.is_null(keys.inner)
                                 ? config.name(keys.inner)
                                 : config.name(keys.expand) + " times 'hidden_size'") +
                            ")");
  }
  if (recurrent.heads % recurrent.groups != 0 || inner % recurrent.groups != 0) {
    config.faults().invalid(config.name(keys.heads) + " " + text(recurrent.heads) +
                            " is not a multiple of " + config.name(keys.groups) + " " +
                            text(recurrent.groups));
  }
  check_widths(config, recurrent, inner);
}

// A count, or "auto" for `automatic`.
uint32_t count_or_auto(const JsonFields& config, const char* key, uint32_t automatic,
                       uint32_t fallback) {
  const json* value = config.find(key);
  if (value != nullptr && *value == "auto") return automatic;
  return config.count(key, fallback == 0 ? automatic : fallback, 1, kMaxWidth);
}

}  // namespace

std::vector<bool> read_attending(const JsonFields& config, const char* key, size_t layers) {
  const json* types = config.find(key);
  if (types == nullptr) return {};
  if (!types->is_array() || types->size() != layers) {
    config.faults().invalid(config.name(key) + " is " + describe(*types) + "; expected a list of " +
                            std::to_string(layers) + ", one type a layer");
    return {};
  }
  std::vector<bool> attending;
  for (const json& type : *types) {
    attending.push_back(type == "full_attention" || type == "attention");
    if (attending.back() || type == "linear_attention" || type == "mamba") continue;
    config.faults().unsupported(config.name(key) + " has " + describe(type) +
                                "; there are \"full_attention\" and \"linear_attention\"");
    return {};
  }
  return attending;
}

uint32_t read_inner(const JsonFields& config, const char* expand, uint32_t hidden) {
  const uint64_t inner = uint64_t{hidden} * config.count(expand, 2, 1, kMaxExpansion);
  if (inner <= kMaxWidth / 2) return static_cast<uint32_t>(inner);
  config.faults().invalid(config.name(expand) + " times 'hidden_size' is " + std::to_string(inner) +
                          "; expected at most " + std::to_string(kMaxWidth / 2));
  return hidden;
}

void expect_silu(const JsonFields& config) {
  if (read_activation(config, {"hidden_act"}, "silu") == Activation::silu) return;
  config.faults().unsupported("'hidden_act' is " + describe(*config.find("hidden_act")) +
                              "; recurrent layers are built for \"silu\" only");
}

uint32_t read_plain_shape(const JsonFields& config, const ShapeDefaults& defaults,
                          ModelPlan& plan) {
  plan.vocabulary = config.count("vocab_size", defaults.vocabulary, 1, kMaxWidth);
  plan.hidden = config.count("hidden_size", defaults.hidden, 1, kMaxWidth);
  plan.context_tokens = config.count("max_position_embeddings", kRecurrentContext, 1, kMaxWidth);
  plan.tied_embeddings = config.flag("tie_word_embeddings", defaults.tied);
  read_ends(config, defaults, plan);
  return config.count("num_hidden_layers", defaults.layers, 1, kMaxLayers);
}

LayerPlan recurrent_layer(const RecurrentPlan& recurrent, float eps) {
  LayerPlan layer;
  layer.attention_norm = {.kind = NormKind::rms, .eps = eps};
  layer.recurrent = recurrent;
  return layer;
}

void replace_attention(const RecurrentPlan& recurrent, LayerPlan& layer) {
  layer.attention = SelfAttentionPlan();
  layer.attention.rope = -1;
  layer.latent = {};
  layer.recurrent = recurrent;
}

void add_layers(const std::vector<bool>& attending, const LayerPlan& layer,
                const RecurrentPlan& recurrent, ModelPlan& plan) {
  for (const bool attends : attending) {
    plan.layers.push_back(layer);
    if (!attends) replace_attention(recurrent, plan.layers.back());
  }
}

const RecurrentPlan* first_recurrence(const ModelPlan& plan) {
  const auto recurs = [](const LayerPlan& layer) { return static_cast<bool>(layer.recurrent); };
  const auto found = std::ranges::find_if(plan.layers, recurs);
  return found == plan.layers.end() ? nullptr : &found->recurrent;
}

void check_delta(const JsonFields& config, RecurrentPlan& delta) {
  if (delta.heads % delta.groups != 0) {
    config.faults().invalid("'linear_num_value_heads' " + std::to_string(delta.heads) +
                            " is not a multiple of 'linear_num_key_heads' " +
                            std::to_string(delta.groups));
  }
  // The widths of products are 32-bit, and so are those of states.
  const auto times = [](uint64_t a, uint64_t b) { return std::min<uint64_t>(a * b, kMaxWidth); };
  const uint64_t values = times(delta.heads, delta.head_dim);
  const uint64_t keys = times(delta.groups, delta.state);
  if (2 * values + 2 * keys <= kMaxWidth && times(values, delta.state) < kMaxWidth) return;
  config.faults().invalid(std::to_string(delta.heads) + " heads of " +
                          std::to_string(delta.head_dim) + " with keys of " +
                          std::to_string(delta.state) + " are too wide; at most " +
                          std::to_string(kMaxWidth) + " numbers together");
  delta.heads = delta.groups = delta.head_dim = delta.state = 1;
}

RecurrentPlan read_mamba(const JsonFields& config, uint32_t hidden, const MambaKeys& keys) {
  RecurrentPlan recurrent{.kind = Recurrence::mamba, .gate_norm = {}};
  recurrent.heads = read_inner(config, keys.expand, hidden);
  if (keys.inner != nullptr) {
    recurrent.heads = config.count(keys.inner, recurrent.heads, 1, kMaxWidth / 2);
  }
  recurrent.head_dim = recurrent.groups = 1;
  recurrent.state = config.count(keys.state, 16, 1, kMaxWidth / (2 * recurrent.heads));
  recurrent.width = config.count(keys.width, 4, 1, kMaxConvolution);
  recurrent.step_rank = read_step_rank(config, keys.step_rank, hidden);
  recurrent.projection_bias = recurrent.output_bias = config.flag(keys.projection_bias, false);
  recurrent.convolution_bias = config.flag(keys.convolution_bias, true);
  return recurrent;
}

RecurrentPlan read_mamba2(const JsonFields& config, uint32_t hidden, float eps,
                          const Mamba2Defaults& defaults, const Mamba2Keys& keys) {
  uint32_t inner = 0;
  if (keys.inner == nullptr || config.is_null(keys.inner)) {
    inner = read_inner(config, keys.expand, hidden);
  } else {
    inner = config.count(keys.inner, defaults.inner, 1, kMaxWidth / 2);
    (void)config.find(keys.expand);
  }
  RecurrentPlan recurrent{.kind = Recurrence::mamba2, .gate_norm = {}};
  recurrent.heads = config.count(keys.heads, defaults.heads, 1, kMaxWidth);
  recurrent.head_dim = count_or_auto(config, keys.head_dim, std::max(inner / recurrent.heads, 1u),
                                     defaults.head_dim);
  recurrent.state = config.count(keys.state, defaults.state, 1, kMaxWidth);
  recurrent.groups = config.count(keys.groups, defaults.groups, 1, kMaxWidth);
  recurrent.width = config.count(keys.width, 4, 1, kMaxConvolution);
  recurrent.projection_bias = recurrent.output_bias = config.flag(keys.projection_bias, false);
  recurrent.convolution_bias = config.flag(keys.convolution_bias, true);
  recurrent.gate_norm = {.kind = NormKind::rms, .eps = eps};
  read_step_limits(config, recurrent);
  check_heads(config, recurrent, inner, keys);
  return recurrent;
}

uint32_t read_step_rank(const JsonFields& config, const char* key, uint32_t hidden) {
  return count_or_auto(config, key, (hidden + 15) / 16, 0);
}

uint32_t expand_from_gguf(const GgufFields& fields) {
  const uint32_t hidden = fields.count(".embedding_length", 1, 1, kMaxWidth);
  const uint32_t inner = fields.need_count(".ssm.inner_size", 1, kMaxWidth / 2);
  if (inner % hidden != 0) {
    fields.faults().unsupported(fields.name(".ssm.inner_size") + " is " + std::to_string(inner) +
                                ", no multiple of the hidden width " + std::to_string(hidden) +
                                "; such models are not built");
  }
  return std::max(inner / hidden, 1u);
}

void mamba_from_gguf(const GgufFields& fields, const MambaKeys& keys,
                     nlohmann::ordered_json& config) {
  config[keys.state] = fields.need_count(".ssm.state_size", 1, kMaxWidth);
  config[keys.width] = fields.need_count(".ssm.conv_kernel", 1, kMaxWidth);
  config[keys.step_rank] = fields.need_count(".ssm.time_step_rank", 1, kMaxWidth);
  config[keys.expand] = expand_from_gguf(fields);
}

void mamba_to_gguf(const RecurrentPlan& recurrent, const std::string& architecture,
                   GgufMetadata& out) {
  out.add_count(architecture + ".ssm.conv_kernel", recurrent.width);
  out.add_count(architecture + ".ssm.inner_size", recurrent.inner());
  out.add_count(architecture + ".ssm.state_size", recurrent.state);
  out.add_count(architecture + ".ssm.time_step_rank", recurrent.step_rank);
}

// What is called the rank of steps is the number of heads here.
void mamba2_from_gguf(const GgufFields& fields, const Mamba2Keys& keys,
                      nlohmann::ordered_json& config) {
  const uint32_t heads = fields.need_count(".ssm.time_step_rank", 1, kMaxWidth);
  const uint32_t inner = fields.need_count(".ssm.inner_size", 1, kMaxWidth / 2);
  config[keys.heads] = heads;
  config[keys.head_dim] = std::max(inner / heads, 1u);
  config[keys.state] = fields.need_count(".ssm.state_size", 1, kMaxWidth);
  config[keys.groups] = fields.need_count(".ssm.group_count", 1, kMaxWidth);
  config[keys.width] = fields.need_count(".ssm.conv_kernel", 1, kMaxConvolution);
  if (keys.inner == nullptr) {
    config[keys.expand] = expand_from_gguf(fields);
  } else {
    config[keys.inner] = inner;
  }
}

void mamba2_to_gguf(const RecurrentPlan& recurrent, const std::string& architecture,
                    GgufMetadata& out) {
  out.add_count(architecture + ".ssm.conv_kernel", recurrent.width);
  out.add_count(architecture + ".ssm.inner_size", recurrent.inner());
  out.add_count(architecture + ".ssm.state_size", recurrent.state);
  out.add_count(architecture + ".ssm.time_step_rank", recurrent.heads);
  out.add_count(architecture + ".ssm.group_count", recurrent.groups);
}

}  // namespace tenon
