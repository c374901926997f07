// Gemma 3n (its text model): several residual streams (AltUp), a learned residual next to attention
// (LAuReL), per-layer embeddings, gates of MLPs that are cut off below a part of their values, and
// K and V of earlier layers in the last ones. Norms have plain weights, and scores no factor.
#include <algorithm>
#include <cmath>

#include "core/model/checkpoint/gguf_config.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/gemma.h"

namespace tenon {
namespace gemma3n_family {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kSparsity = "activation_sparsity_pattern";
constexpr const char* kWidths = "intermediate_size";
constexpr const char* kShared = "num_kv_shared_layers";

constexpr TensorName kNames[] = {
    {Role::attention_post_norm, "post_attention_layernorm"},
    {Role::mlp_norm, "pre_feedforward_layernorm"},
    {Role::mlp_post_norm, "post_feedforward_layernorm"},
};

constexpr ShapeDefaults kShape{.vocabulary = 262400,
                               .hidden = 2048,
                               .intermediate = 16384,
                               .layers = 35,
                               .heads = 8,
                               .kv_heads = 2,
                               .head_dim = 256,
                               .context_tokens = 32768,
                               .bos = 2,
                               .eos = 1,
                               .tied = true};
constexpr ShapeKeys kKeys{.intermediate = nullptr};

// Below which standard deviation so large a part of normally distributed values lies.
double deviation_of(double part) {
  double low = -40.0, high = 40.0;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2.0;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < part ? low : high) = middle;
  }
  return high;
}

double part_below(double deviation) {
  return 0.5 * std::erfc(-deviation / std::sqrt(2.0));
}

// One width for all layers, or a list.
void read_widths(const JsonFields& config, ModelPlan& plan) {
  const json* value = config.find(kWidths);
  std::vector<uint32_t> widths;
  if (value != nullptr && value->is_array()) {
    widths = read_layer_counts(config, kWidths, plan.layers.size());
  } else {
    widths.assign(plan.layers.size(), config.count(kWidths, kShape.intermediate, 1, kMaxWidth));
  }
  for (size_t i = 0; i < widths.size(); ++i) plan.layers[i].mlp.width = widths[i];
}

// What part of each layer's gates is cut off; in models of more than ten layers, 0.95 in the first
// ten of them where nothing says so.
void read_cutoffs(const JsonFields& config, ModelPlan& plan) {
  const size_t layers = plan.layers.size();
  const json* value = config.find(kSparsity);
  const auto sound = [](const json& part) {
    return part.is_number() && part.get<double>() >= 0.0 && part.get<double>() < 1.0;
  };
  if (value != nullptr &&
      (!value->is_array() || value->size() != layers || !std::ranges::all_of(*value, sound))) {
    return config.faults().invalid(config.name(kSparsity) + " is " + describe(*value) +
                                   "; expected a list of " + std::to_string(layers) +
                                   " numbers from 0 to below 1, one a layer");
  }
  for (size_t i = 0; i < layers; ++i) {
    const double usual = layers > 10 && i < 10 ? 0.95 : 0.0;
    // transformers keeps them in f32.
    const float part = value != nullptr ? (*value)[i].get<float>() : static_cast<float>(usual);
    MlpPlan& mlp = plan.layers[i].mlp;
    mlp.cuts_gate = part > 0.0f;
    if (mlp.cuts_gate) mlp.gate_cutoff = static_cast<float>(deviation_of(double{part}));
  }
}

// Every fifth layer sees everything where nothing says which.
void read_kinds(const JsonFields& config, ModelPlan& plan) {
  std::vector<bool> sliding = read_sliding_layers(config, plan.layers.size());
  for (size_t i = sliding.size(); i < plan.layers.size(); ++i) sliding.push_back((i + 1) % 5 != 0);
  set_windows(sliding, config.count("sliding_window", 512, 1, kMaxWidth), plan);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    plan.layers[i].attention.rope = sliding[i] ? 1 : 0;
  }
}

void read_streams(const JsonFields& config, LayerPlan& layer) {
  constexpr uint32_t kMostStreams = 64;
  layer.streams.count = config.count("altup_num_inputs", 4, 2, kMostStreams);
  layer.streams.active = config.count("altup_active_idx", 0, 0, layer.streams.count - 1);
  layer.streams.scaled = config.flag("altup_correct_scale", true);
  layer.streams.norm = layer.attention_norm;
  layer.low_residual = {.rank = config.count("laurel_rank", 64, 1, kMaxWidth),
                        .norm = layer.attention_norm};
  (void)config.find("altup_coef_clip");  // of training
}

LayerPlan read_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.attention_post_norm = layer.mlp_post_norm = layer.attention_norm;
  layer.attention.qk_norm = plan.final_norm = layer.attention_norm;
  layer.attention.v_norm_eps = layer.attention_norm.eps;
  layer.attention.scale = 1.0f;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_activation"}, "gelu_pytorch_tanh");
  layer.input.width = config.count("hidden_size_per_layer_input", 256, 1, kMaxWidth);
  layer.input.activation = layer.mlp.activation;
  layer.input.norm = layer.attention_norm;
  read_streams(config, layer);
  return layer;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kShape, plan, kKeys);
  plan.layers.assign(shape.layers, read_layer(config, shape, plan));
  plan.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(shape.hidden)));
  plan.logit_soft_cap = read_cap(config, "final_logit_softcapping", 30.0);
  plan.layer_input_tokens = config.count("vocab_size_per_layer_input", 262144, 1, kMaxWidth);
  read_widths(config, plan);
  read_cutoffs(config, plan);
  read_kinds(config, plan);
  read_gemma_ropes(config, shape.head_dim, plan);
  const uint32_t shared = config.count(kShared, 15, 0, kMaxLayers);
  if (shared >= shape.layers) {
    config.faults().invalid(config.name(kShared) + " is " + std::to_string(shared) + "; of " +
                            std::to_string(shape.layers) + " layers one at least has its own");
  } else {
    share_kv_by_kind(config, kShared, shared, plan);
  }
  // Scores have no factor, and no cap, whatever these say.
  for (const char* key : {"query_pre_attn_scalar", "attn_logit_softcapping"}) {
    (void)config.find(key);
  }
}

// As standard deviations; layers that cut nothing have minus infinity, or a number as good as that.
void cutoffs_from_gguf(const GgufFields& fields, ordered_json& config) {
  constexpr const char* kKey = ".activation_sparsity_scale";
  const auto layers = config["num_hidden_layers"].get<size_t>();
  const GgufValue* value = fields.find(kKey);
  const auto scales = value != nullptr ? value->reals() : std::nullopt;
  const auto broken = [](float scale) { return std::isnan(scale) || scale > 8.0f; };
  if (!scales || scales->size() != layers || std::ranges::any_of(*scales, broken)) {
    return fields.faults().invalid(
        fields.name(kKey) + " is " + (value != nullptr ? value->describe() : "missing") +
        "; expected a list of " + std::to_string(layers) + " numbers up to 8, one a layer");
  }
  config[kSparsity] = ordered_json::array();
  for (const float scale : *scales) {
    config[kSparsity].push_back(scale < -8.0f ? 0.0 : part_below(double{scale}));
  }
}

void from_gguf(const GgufFields& fields, ordered_json& config) {
  windows_from_gguf(fields, config);
  cutoffs_from_gguf(fields, config);
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["rope_local_base_freq"] = fields.number(".rope.freq_base_swa", 1e4, 1e-6, 1e30);
  config["final_logit_softcapping"] = cap_from_gguf(fields, ".final_logit_softcapping", 30.0);
  config["altup_num_inputs"] = fields.count(".altup.num_inputs", 4, 2, 64);
  config["altup_active_idx"] = fields.count(".altup.active_idx", 0, 0, 63);
  config["laurel_rank"] = std::max<uint64_t>(fields.tensor_rows("blk.0.laurel_l.weight"), 1);
  config["hidden_size_per_layer_input"] =
      fields.count(".embedding_length_per_layer_input", 256, 1, kMaxWidth);
  config["vocab_size_per_layer_input"] =
      std::max<uint64_t>(fields.tensor_rows("per_layer_token_embd.weight"), 1);
  config[kShared] = fields.count(".attention.shared_kv_layers", 0, 0, kMaxLayers);
  const auto layers = config["num_hidden_layers"].get<size_t>();
  config[kWidths] = ordered_json::array();
  for (const double width : fields.numbers(".feed_forward_length", layers)) {
    config[kWidths].push_back(static_cast<uint32_t>(std::clamp(width, 0.0, double{kMaxWidth})));
  }
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  uint32_t shared = 0;
  std::vector<float> cutoffs;
  for (const LayerPlan& layer : plan.layers) {
    shared += layer.attention.kv_from_layer >= 0 ? 1 : 0;
    cutoffs.push_back(layer.mlp.cuts_gate ? layer.mlp.gate_cutoff : -1e30f);
  }
  out.add_count(architecture + ".altup.num_inputs", plan.streams().count);
  out.add_count(architecture + ".altup.active_idx", plan.streams().active);
  out.add_count(architecture + ".embedding_length_per_layer_input", plan.input().width);
  out.add_count(architecture + ".attention.shared_kv_layers", shared);
  out.add_reals(architecture + ".activation_sparsity_scale", cutoffs);
  out.add_real(architecture + ".rope.freq_base_swa", static_cast<float>(plan.ropes[1].theta));
  out.add_real(architecture + ".final_logit_softcapping", plan.logit_soft_cap);
}

}  // namespace gemma3n_family

const Family kGemma3n{.model_type = "gemma3n_text",
                      .class_stem = "Gemma3n",
                      .architecture = "gemma3n",
                      .read = gemma3n_family::read,
                      .tensors = {.names = gemma3n_family::kNames},
                      .gguf_windows = GgufWindows::by_family,
                      .gguf_theta = 1e6,
                      .from_gguf = gemma3n_family::from_gguf,
                      .to_gguf = gemma3n_family::to_gguf};

}  // namespace tenon
