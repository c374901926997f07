#include "core/model/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/quote.h"
#include "core/model/gguf_fields.h"

namespace tenon {
namespace {

constexpr uint32_t kMaxWidth = 0x7fffffff;
constexpr uint32_t kMaxLayers = 65535;
constexpr std::string_view kArchitectures[] = {"llama", "mistral", "qwen2", "qwen3"};

const GgufTensor* find_tensor(const GgufFile& file, std::string_view name) {
  const auto found = std::ranges::find(file.tensors(), name, &GgufTensor::name);
  return found == file.tensors().end() ? nullptr : &*found;
}

void read_shape(const GgufFile& file, const GgufFields& fields, ModelConfig& out) {
  out.hidden = fields.need_count(".embedding_length", 1, kMaxWidth);
  out.intermediate = fields.need_count(".feed_forward_length", 1, kMaxWidth);
  out.layers = fields.need_count(".block_count", 1, kMaxLayers);
  out.heads = fields.need_count(".attention.head_count", 1, kMaxWidth);
  out.kv_heads = fields.count(".attention.head_count_kv", out.heads, 1, kMaxWidth);
  out.context_tokens = fields.need_count(".context_length", 1, kMaxWidth);
  Faults& faults = fields.faults();
  if (const GgufTensor* embedding = find_tensor(file, "token_embd.weight")) {
    out.vocabulary = static_cast<uint32_t>(std::min<uint64_t>(embedding->extents[0], kMaxWidth));
  } else {
    faults.invalid("tensor 'token_embd.weight' is missing; this file holds no model to run");
  }
  if (!fields.has(".attention.key_length") && out.hidden % out.heads != 0) {
    faults.invalid(fields.name(".embedding_length") + " " + std::to_string(out.hidden) +
                   " is not a multiple of " + fields.name(".attention.head_count") + " " +
                   std::to_string(out.heads));
  }
  out.head_dim = fields.count(".attention.key_length", out.hidden / out.heads, 1, kMaxWidth);
  const uint32_t v_dim = fields.count(".attention.value_length", out.head_dim, 1, kMaxWidth);
  const uint32_t turned = fields.count(".rope.dimension_count", out.head_dim, 1, kMaxWidth);
  if (v_dim != out.head_dim) {
    faults.unsupported("values of " + std::to_string(v_dim) + " elements beside keys of " +
                       std::to_string(out.head_dim) + " are not built");
  }
  if (turned != out.head_dim) {
    faults.unsupported(fields.name(".rope.dimension_count") + " is " + std::to_string(turned) +
                       "; only whole heads (" + std::to_string(out.head_dim) + ") are rotated");
  }
  if (out.heads % out.kv_heads != 0) {
    faults.invalid(std::to_string(out.heads) + " heads are not a multiple of " +
                   std::to_string(out.kv_heads) + " KV heads");
  }
  if (out.head_dim % 2 != 0 || out.head_dim == 0) {
    faults.invalid("heads of " + std::to_string(out.head_dim) +
                   " elements; rotary embedding turns pairs");
  }
  if (uint64_t{out.heads} * out.head_dim > kMaxWidth) {
    faults.invalid(std::to_string(out.heads) + " heads of " + std::to_string(out.head_dim) +
                   " are too wide; at most " + std::to_string(kMaxWidth) + " together");
  }
}

// Whether layer 0 has a tensor; biases and norms stand in all layers or in none.
void read_features(const GgufFile& file, const GgufFields& fields, ModelConfig& out) {
  const auto has = [&](std::string_view name) { return find_tensor(file, name) != nullptr; };
  out.qkv_bias = has("blk.0.attn_q.bias");
  out.output_bias = has("blk.0.attn_output.bias");
  out.mlp_bias = has("blk.0.ffn_gate.bias");
  out.qk_norm = out.architecture == "qwen3";
  out.tied_embeddings = !has("output.weight");
  out.norm_eps =
      static_cast<float>(fields.number(".attention.layer_norm_rms_epsilon", 1e-5, 1e-20, 0.999));
}

// The exact settings behind stored rotary factors, where this program wrote the file.
void read_llama3(const GgufFields& fields, ModelConfig& out) {
  RopeScaling& scaling = out.rope_scaling;
  scaling.kind = RopeScalingKind::llama3;
  scaling.factor = fields.number("tenon.rope.llama3.factor", 1.0, 1e-6, 1e30);
  scaling.low_freq_factor = fields.number("tenon.rope.llama3.low_freq_factor", 1.0, 1e-6, 1e30);
  scaling.high_freq_factor = fields.number("tenon.rope.llama3.high_freq_factor", 4.0, 1e-6, 1e30);
  scaling.original_context_tokens =
      fields.count("tenon.rope.llama3.original_context_length", out.context_tokens, 1, kMaxWidth);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    fields.faults().invalid("'tenon.rope.llama3.high_freq_factor' must be above the low one");
  }
}

void read_scaling(const GgufFields& fields, ModelConfig& out) {
  const double old = fields.number(".rope.scale_linear", 1.0, 1e-6, 1e30);
  const std::string type = fields.text(".rope.scaling.type", old != 1.0 ? "linear" : "none");
  if (type == "linear") {
    out.rope_scaling.kind = RopeScalingKind::linear;
    out.rope_scaling.factor = fields.number(".rope.scaling.factor", old, 1e-6, 1e30);
  } else if (type != "none") {
    fields.faults().unsupported(fields.name(".rope.scaling.type") + " is " + in_quotes(type) +
                                "; there are none and linear, and stored factors (llama 3)");
  }
  if (fields.has("tenon.rope.llama3.factor")) read_llama3(fields, out);
}

void read_rope(const GgufFile& file, std::span<const std::byte> bytes, const GgufFields& fields,
               ModelConfig& out) {
  out.rope_theta = fields.number(".rope.freq_base", 10000.0, 1e-6, 1e30);
  read_scaling(fields, out);
  Faults& faults = fields.faults();
  for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (find_tensor(file, name) == nullptr) continue;
    faults.unsupported("tensor " + in_quotes(name) + " (longrope) is not built");
  }
  const GgufTensor* factors = find_tensor(file, "rope_freqs.weight");
  if (factors == nullptr) return;
  if (factors->type != kGgufF32 || factors->extents != std::vector<uint64_t>{out.head_dim / 2}) {
    faults.invalid("tensor 'rope_freqs.weight' is not " + std::to_string(out.head_dim / 2) +
                   " values of f32, one a pair of a head");
    return;
  }
  std::vector<float> values(out.head_dim / 2);
  std::memcpy(values.data(), bytes.data() + factors->begin, values.size() * sizeof(float));
  const bool sound =
      std::ranges::all_of(values, [](float value) { return value >= 1e-6f && value <= 1e30f; });
  if (!sound) faults.invalid("tensor 'rope_freqs.weight' has a value outside of 1e-6 to 1e30");
  if (out.rope_scaling.kind != RopeScalingKind::llama3) {
    out.rope_factors = std::move(values);
    return;
  }
  const std::vector<float> expected = llama3_rope_factors(out);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::fabs(values[i] - expected[i]) <= 1e-5f * expected[i]) continue;
    faults.invalid(
        "tensor 'rope_freqs.weight' and 'tenon.rope.llama3.factor' contradict each other");
    return;
  }
}

void read_windows(const GgufFields& fields, ModelConfig& out) {
  out.window_tokens.assign(out.layers, 0);
  const uint32_t window = fields.count(".attention.sliding_window", 0, 0, kMaxWidth);
  if (window == 0 || window >= out.context_tokens) return;
  const GgufValue* pattern = fields.find(".attention.sliding_window_pattern");
  if (pattern == nullptr) {
    const bool all = out.architecture == "llama" || out.architecture == "mistral";
    if (all) out.window_tokens.assign(out.layers, window);
    if (!all) {
      fields.faults().unsupported(fields.name(".attention.sliding_window") +
                                  " does not say which layers it is for; expected " +
                                  fields.name(".attention.sliding_window_pattern") + " beside it");
    }
    return;
  }
  const auto layers = pattern->integers();
  if (!layers || layers->size() != out.layers) {
    fields.faults().unsupported(fields.name(".attention.sliding_window_pattern") + " is " +
                                pattern->describe() + "; expected true or false for each of " +
                                std::to_string(out.layers) + " layers");
    return;
  }
  for (uint32_t i = 0; i < out.layers; ++i) out.window_tokens[i] = (*layers)[i] != 0 ? window : 0;
}

// Values that change the arithmetic in ways that are not built, with what changes nothing.
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
    const double value = fields.number(refused.key, refused.neutral, -1e30, 1e30);
    if (value == refused.neutral) continue;
    fields.faults().unsupported(fields.name(refused.key) + " is " +
                                fields.find(refused.key)->describe() + "; " +
                                std::string(refused.what) + " is not built");
  }
  if (!fields.flag(".attention.causal", true)) {
    fields.faults().unsupported(fields.name(".attention.causal") +
                                " is false; only causal attention is built");
  }
  if (fields.flag(".use_parallel_residual", false)) {
    fields.faults().unsupported(fields.name(".use_parallel_residual") +
                                " is true; parallel residuals are not built");
  }
}

// Ids beyond the vocabulary mean none: converters write the default of another vocabulary.
std::optional<TokenId> token_id(const GgufFields& fields, std::string_view key,
                                uint32_t vocabulary) {
  const uint32_t id = fields.count(key, 0xffffffffu, 0, 0xffffffffu);
  return id < vocabulary ? std::optional(static_cast<TokenId>(id)) : std::nullopt;
}

void read_tokens(const GgufFields& fields, ModelConfig& out) {
  out.bos = token_id(fields, "tokenizer.ggml.bos_token_id", out.vocabulary);
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    const auto id = token_id(fields, key, out.vocabulary);
    if (id && std::ranges::find(out.eos, *id) == out.eos.end()) out.eos.push_back(*id);
  }
}

}  // namespace

bool gguf_pairs_rows(std::string_view architecture) {
  return architecture == "llama" || architecture == "mistral";
}

Result<ModelConfig> gguf_model_config(const GgufFile& file, std::span<const std::byte> bytes,
                                      std::string_view name) {
  Faults faults;
  ModelConfig config;
  config.architecture = GgufFields(file, "", faults).text("general.architecture", "");
  if (std::ranges::find(kArchitectures, config.architecture) == std::end(kArchitectures)) {
    faults.unsupported("'general.architecture' is " + in_quotes(config.architecture) +
                       "; there are llama, mistral, qwen2, qwen3");
    return faults.status(name);
  }
  const GgufFields fields(file, config.architecture, faults);
  read_shape(file, fields, config);
  // What follows is measured by the shape.
  if (faults.any()) return faults.status(name);
  read_features(file, fields, config);
  read_rope(file, bytes, fields, config);
  read_windows(fields, config);
  read_tokens(fields, config);
  refuse_other_arithmetic(fields);
  if (faults.any()) return faults.status(name);
  const bool windowed = std::ranges::any_of(config.window_tokens, [](auto w) { return w > 0; });
  if (config.architecture == "llama" && windowed) config.architecture = "mistral";
  return config;
}

Result<GenerationDefaults> gguf_generation_defaults(const GgufFile& file, std::string_view name) {
  Faults faults;
  const GgufFields fields(file, "general", faults);
  GenerationDefaults defaults;
  if (fields.has(".sampling.temp")) {
    defaults.temperature = static_cast<float>(fields.number(".sampling.temp", 0, 0, 1000));
  }
  if (fields.has(".sampling.top_p")) {
    defaults.top_p = static_cast<float>(fields.number(".sampling.top_p", 1, 0, 1));
  }
  if (fields.has(".sampling.top_k")) {
    defaults.top_k = fields.count(".sampling.top_k", 0, 0, kMaxWidth);
  }
  if (faults.any()) return faults.status(name);
  return defaults;
}

}  // namespace tenon
