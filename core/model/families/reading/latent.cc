#include "core/model/families/reading/latent.h"

#include <cmath>

#include "core/model/checkpoint/gguf_config.h"

namespace tenon {
namespace {

// transformers hard-codes it for the norms of low ranks.
constexpr NormPlan kLowRankNorm{.kind = NormKind::rms, .eps = 1e-6f};

// K and V of each head follow from the latent row, so there is nothing that heads could share. The
// reference asks no more than how many times the number goes into that of heads: once.
void check_kv_heads(const JsonFields& config, const Shape& shape) {
  const char* key = "num_key_value_heads";
  const uint32_t kv_heads = config.count(key, shape.heads, 1, kMaxWidth);
  if (shape.heads / kv_heads == 1) return;
  config.faults().unsupported(config.name(key) + " is " + std::to_string(kv_heads) +
                              "; latent attention has K and V for each of its " +
                              std::to_string(shape.heads) + " heads");
}

RopePlan read_latent_rope(const JsonFields& config, const LatentAttentionPlan& latent,
                          const LatentDefaults& defaults, bool pairs, uint32_t context_tokens) {
  RopeDefaults rope{.theta = defaults.theta, .pairs = pairs, .settings = defaults.rope_settings};
  if (!defaults.rope_of_heads) return read_rope(config, rope, latent.rope_dim, context_tokens);
  rope.partial = PartialRotation::by_key;
  rope.partial_factor = static_cast<double>(latent.rope_dim) / latent.q_dim();
  RopePlan plan = read_rope(config, rope, latent.q_dim(), context_tokens);
  if (plan.dim != latent.rope_dim) {
    config.faults().invalid("'partial_rotary_factor' lets " + std::to_string(plan.dim) +
                            " elements of a head turn; 'qk_rope_head_dim' is " +
                            std::to_string(latent.rope_dim));
    plan.dim = latent.rope_dim;
  }
  return plan;
}

// Where the reference does not replace these two by what they follow from, the first is what turns
// and the second what scores are scaled by.
void check_sums(const JsonFields& config, const LatentAttentionPlan& latent,
                const LatentDefaults& defaults) {
  const auto check = [&](const char* key, uint32_t expected, std::string_view what) {
    const uint32_t value = config.count(key, expected, 1, kMaxWidth);
    if (value == expected) return;
    config.faults().unsupported(config.name(key) + " is " + std::to_string(value) + "; expected " +
                                std::to_string(expected) + ", " + std::string(what));
  };
  if (defaults.head_dim_counts && defaults.rope_of_heads) {
    check("head_dim", latent.q_dim(), "the width of a head");
  } else if (defaults.head_dim_counts) {
    check("head_dim", latent.rope_dim, "which is 'qk_rope_head_dim'");
  }
  check("qk_head_dim", latent.q_dim(), "the sum of 'qk_nope_head_dim' and 'qk_rope_head_dim'");
}

// The log of YaRN's factor times this is what attention is raised by; both of the names that
// config.json has for it, since the file says nothing of cosines and sines.
void yarn_from_gguf(const GgufFields& fields, nlohmann::ordered_json& scaling) {
  const char* exact = "tenon.rope.yarn.mscale_all_dim";
  const char* multiplier = ".rope.scaling.yarn_log_multiplier";
  if (!fields.has(exact) && !fields.has(multiplier)) return;
  const auto narrow = static_cast<float>(fields.number(multiplier, 0.0, 0.0, 1e30));
  const double all = 10.0 * shortest_double(narrow);
  scaling["mscale_all_dim"] = fields.number(exact, all, 0.0, 1e30);
  scaling["mscale"] = fields.number("tenon.rope.yarn.mscale", all, 0.0, 1e30);
}

}  // namespace

Shape read_latent_shape(const JsonFields& config, ShapeDefaults defaults, ModelPlan& plan,
                        ShapeKeys keys) {
  defaults.head_dim = 2;  // counts for nothing
  keys.kv_heads = keys.head_dim = nullptr;
  return read_shape(config, defaults, plan, keys);
}

// transformers puts "qk_rope_head_dim" in the place of "head_dim"; "qk_head_dim" is the sum of the
// two parts.
LatentAttentionPlan read_latent(const JsonFields& config, const Shape& shape,
                                const LatentDefaults& defaults) {
  check_kv_heads(config, shape);
  for (const char* key : {"head_dim", "qk_head_dim"}) (void)config.find(key);
  LatentAttentionPlan latent;
  const char* q_key = "q_lora_rank";
  latent.q_rank = config.is_null(q_key) ? 0 : config.count(q_key, defaults.q_rank, 1, kMaxWidth);
  latent.kv_rank = config.count("kv_lora_rank", defaults.kv_rank, 1, kMaxWidth);
  latent.nope_dim = config.count("qk_nope_head_dim", defaults.nope_dim, 1, kMaxWidth);
  latent.rope_dim = config.count("qk_rope_head_dim", defaults.rope_dim, 1, kMaxWidth);
  latent.v_dim = config.count("v_head_dim", defaults.v_dim, 1, kMaxWidth);
  latent.norm = kLowRankNorm;
  latent.bias = config.flag("attention_bias", false);
  const uint64_t widest =
      uint64_t{latent.kv_rank} + latent.rope_dim + latent.nope_dim + latent.v_dim;
  if (shape.heads * widest > kMaxWidth) {
    config.faults().invalid(std::to_string(shape.heads) + " heads over latent rows of " +
                            std::to_string(latent.kv_rank) + " + " +
                            std::to_string(latent.rope_dim) + " elements are too wide; at most " +
                            std::to_string(kMaxWidth) + " together");
    latent.kv_rank = latent.nope_dim = latent.v_dim = latent.rope_dim = 2;
  }
  return latent;
}

void set_latent(const LatentAttentionPlan& latent, float scale, LayerPlan& layer) {
  layer.latent = latent;
  layer.attention.kv_heads = 1;
  layer.attention.head_dim = latent.row_dim();
  layer.attention.scale = scale;
  layer.attention.output_bias = latent.bias;
}

bool read_interleave(const JsonFields& config) {
  return config.truth("rope_interleave", true);
}

// The context's stretch raises the scale, where the settings say by how much (arXiv:2309.00071).
float latent_scale(const LatentAttentionPlan& latent, const RopeScaling& scaling) {
  const double stretch = scaling.mscale_all_dim != 0.0 && scaling.factor > 1.0
                             ? 0.1 * scaling.mscale_all_dim * std::log(scaling.factor) + 1.0
                             : 1.0;
  return static_cast<float>(stretch * stretch / std::sqrt(static_cast<double>(latent.q_dim())));
}

void read_latent_layers(const JsonFields& config, const Shape& shape,
                        const LatentDefaults& defaults, bool pairs, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", defaults.eps));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  LatentAttentionPlan latent = read_latent(config, shape, defaults);
  if (latent.rope_dim % 2 != 0) {
    config.faults().invalid("'qk_rope_head_dim' is " + std::to_string(latent.rope_dim) +
                            "; expected an even number: rotary embedding turns pairs");
    latent.rope_dim = 2;
  }
  check_sums(config, latent, defaults);
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_latent_rope(config, latent, defaults, pairs, plan.context_tokens)};
  set_latent(latent, latent_scale(latent, plan.ropes.front().scaling), layer);
  plan.layers.assign(shape.layers, layer);
}

// Files from before May 2025 have the sizes of heads where newer ones have those of the cache's
// row, and those of heads beside them.
void latent_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  const uint32_t rank = fields.need_count(".attention.kv_lora_rank", 1, kMaxWidth);
  const uint32_t rope = fields.need_count(".rope.dimension_count", 1, kMaxWidth);
  const uint32_t heads_k = fields.count(".attention.key_length", 0, 0, kMaxWidth);
  const uint32_t heads_v = fields.count(".attention.value_length", 0, 0, kMaxWidth);
  const uint32_t k = fields.count(".attention.key_length_mla", heads_k, 0, kMaxWidth);
  const uint32_t v = fields.count(".attention.value_length_mla", heads_v, 0, kMaxWidth);
  if (k <= rope || v == 0) {
    fields.faults().invalid(fields.name(".attention.key_length_mla") + " is " + std::to_string(k) +
                            "; expected the size of a head, of which " + std::to_string(rope) +
                            " elements turn, and " + fields.name(".attention.value_length_mla") +
                            " beside it");
    return;
  }
  const uint32_t q_rank = fields.count(".attention.q_lora_rank", 0, 0, kMaxWidth);
  config["q_lora_rank"] = q_rank > 0 ? nlohmann::ordered_json(q_rank) : nlohmann::ordered_json();
  config["kv_lora_rank"] = rank;
  config["qk_nope_head_dim"] = k - rope;
  config["qk_rope_head_dim"] = rope;
  config["v_head_dim"] = v;
  config["num_key_value_heads"] = config["num_attention_heads"];
  config["attention_bias"] = fields.has_tensor("blk.0.attn_kv_a_mqa.bias");
  config["mlp_bias"] = fields.has_tensor("blk.0.ffn_down.bias");
  config.erase("head_dim");
  if (config["rope_scaling"].is_object()) yarn_from_gguf(fields, config["rope_scaling"]);
}

void latent_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const LatentAttentionPlan& latent = plan.layers.front().latent;
  if (latent.q_rank > 0) out.add_count(architecture + ".attention.q_lora_rank", latent.q_rank);
  out.add_count(architecture + ".attention.kv_lora_rank", latent.kv_rank);
  out.add_count(architecture + ".attention.key_length_mla", latent.q_dim());
  out.add_count(architecture + ".attention.value_length_mla", latent.v_dim);
  const RopeScaling& scaling = plan.ropes.front().scaling;
  if (scaling.mscale_all_dim == 0.0) return;
  out.add_real(architecture + ".rope.scaling.yarn_log_multiplier",
               static_cast<float>(0.1 * scaling.mscale_all_dim));
  // What f32 rounds, to compute as precisely again.
  out.add_exact("tenon.rope.yarn.mscale_all_dim", scaling.mscale_all_dim);
  out.add_exact("tenon.rope.yarn.mscale", scaling.mscale);
}

}  // namespace tenon
