#include "core/model/config/model_config.h"

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/model/config/json_fields.h"
#include "core/model/config/text_part.h"
#include "core/model/families/family.h"
#include "core/model/families/nearest.h"
#include "core/model/families/reading/config_keys.h"
#include "core/model/published/reader.h"

namespace tenon {
namespace {

using nlohmann::json;
using Keys = std::set<std::string, std::less<>>;

// The family that the config names, by model_type or else by its architectures.
const Family* read_family(const JsonFields& config) {
  const std::string type = config.text("model_type", "");
  const Family* family = type.empty() ? nullptr : find_family(type);
  if (!type.empty() && family == nullptr) {
    config.faults().unsupported("model_type " + in_quotes(type) + " is not built" +
                                nearest_family(type));
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
  const Family* by_class = find_family_by_class(name);
  if (family != nullptr && is_class_of(*family, name)) return family;
  if (by_class == nullptr || family != nullptr) {
    config.faults().unsupported(
        "architecture " + in_quotes(name) + " is not built" +
        (family ? " for model_type " + in_quotes(type) + "; expected '" : "; expected one like '") +
        std::string(family ? family->class_stem : "Llama") + "ForCausalLM'");
    return nullptr;
  }
  return by_class;
}

// Keys that change the arithmetic where a family knows them, with the value that changes nothing.
struct ArithmeticKey {
  std::string_view key;
  double neutral;
  std::string_view what;
  bool neutral_flag = false;
};
constexpr ArithmeticKey kArithmeticKeys[] = {
    {"num_local_experts", 0, "mixture of experts"},
    {"num_experts", 0, "mixture of experts"},
    {"n_routed_experts", 0, "mixture of experts"},
    {"num_experts_per_tok", 0, "mixture of experts"},
    {"moe_intermediate_size", 0, "mixture of experts"},
    {"shared_expert_intermediate_size", 0, "a shared expert"},
    {"n_shared_experts", 0, "a shared expert"},
    {"num_shared_experts", 0, "a shared expert"},
    {"n_group", 1, "groups of experts"},
    {"topk_group", 1, "groups of experts"},
    {"num_expert_group", 1, "groups of experts"},
    {"routed_scaling_factor", 1, "a scale of the experts' factors"},
    {"scoring_func", 0, "another score of experts"},
    {"topk_method", 0, "another choice of experts"},
    {"router_bias", 0, "a bias of the router"},
    {"first_k_dense_replace", 0, "layers without experts"},
    {"moe_layer_freq", 1, "layers without experts"},
    {"decoder_sparse_step", 1, "layers without experts"},
    {"swiglu_limit", 0, "a clamped SwiGLU"},
    {"swiglu_alpha", 0, "a clamped SwiGLU"},
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
    {"use_parallel_residual", 0, "parallel residuals"},
    {"use_bidirectional_attention", 0, "attention to what follows"},
    {"is_causal", 1, "attention to what follows", true},
    {"per_layer_config", 0, "a config of its own for some layers"},
    {"num_kv_shared_layers", 0, "K/V shared between layers"},
    {"use_cla", 0, "K/V shared between layers"},
    {"index_topk", 0, "an index that chooses positions"},
    {"index_n_heads", 0, "an index that chooses positions"},
    {"attention_chunk_size", 0, "attention in chunks"},
    {"mlp_layer_types", 0, "layers without experts"},
    {"router_scaling_factor", 1, "a scale of the experts' factors"},
    {"moe_num_shared_experts", 0, "a shared expert"},
    {"moe_shared_expert_intermediate_size", 0, "a shared expert"},
    {"shared_intermediate_size", 0, "a shared expert"},
    {"moe_num_experts", 0, "mixture of experts"},
    {"enable_moe_block", 0, "mixture of experts"},
    {"zero_expert_num", 0, "experts that do nothing"},
    {"moe_latent_size", 0, "experts of another width"},
    {"use_expert_bias", 0, "a correction of scores of experts"},
    {"moe_routed_scaling_factor", 1, "a scale of the experts' factors"},
    {"route_scale", 1, "a scale of the experts' factors"},
    {"moe_router_logit_softcapping", 0, "a soft cap on scores of experts"},
    {"swiglu_limits", 0, "a clamped SwiGLU"},
    {"activation_sparsity_pattern", 0, "gates that are cut off"},
    {"mup_enabled", 0, "scaled embeddings"},
    {"scale_emb", 1, "scaled embeddings"},
    {"scale_depth", 0, "scaled residuals"},
    {"key_multiplier", 1, "scaled keys"},
    {"attention_in_multiplier", 1, "scaled inputs of attention"},
    {"attention_out_multiplier", 1, "scaled results of attention"},
    {"attention_value_scale", 1, "scaled values"},
    {"lm_head_multiplier", 1, "scaled logits"},
    {"mlp_multipliers", 0, "scaled MLPs"},
    {"scale_attn_by_inverse_layer_idx", 0, "another attention scale"},
    {"attn_temperature_tuning", 0, "q that grows with the position"},
    {"attn_output_gate", 0, "a gate after attention"},
    {"use_attention_gate", 0, "a gate after attention"},
    {"attention_k_eq_v", 0, "V made of K"},
    {"num_attention_heads_per_layer", 0, "heads by layer"},
    {"layer_rope_theta", 0, "a rotary base for each layer"},
    {"no_rope_layers", 0, "layers without positions"},
    {"parallel_attn", 0, "parallel residuals"},
    {"use_post_norm", 0, "norms after the halves"},
    {"use_sandwich_norm", 0, "norms after the halves"},
    {"use_double_wide_mlp", 0, "an MLP of another width in some layers"},
    {"altup_num_inputs", 1, "several residual streams"},
    {"laurel_rank", 0, "a learned residual"},
    {"hidden_size_per_layer_input", 0, "per-layer embeddings"},
    {"layers_block_type", 0, "layers of other kinds"},
    {"hybrid_override_pattern", 0, "layers of other kinds"},
    {"linear_num_value_heads", 0, "a delta rule"},
    {"linear_attn_config", 0, "a delta rule"},
    {"mamba_d_state", 0, "a Mamba mixer"},
    {"conv_L_cache", 0, "short convolutions"},
    {"num_mem_blocks", 0, "shared blocks"},
};

// Whether a value is absent in spirit: nothing at all, or the flag or number that changes nothing.
bool is_neutral(const json& value, const ArithmeticKey& key) {
  if (value.is_boolean()) return value.get<bool>() == key.neutral_flag;
  if (value.is_structured()) return value.empty();
  return value.is_number() && value.get<double>() == key.neutral;
}

const ArithmeticKey* find_arithmetic(std::string_view key) {
  const auto* found = std::ranges::find(kArithmeticKeys, key, &ArithmeticKey::key);
  return found == std::end(kArithmeticKeys) ? nullptr : found;
}

// Keys that name files, training and the people behind them: not worth a word.
bool is_bookkeeping(std::string_view key) {
  constexpr std::string_view kKeys[] = {
      "_name_or_path", "architectures",        "attention_dropout",
      "auto_map",      "bos_token_id",         "dtype",
      "eos_token_id",  "initializer_range",    "model_type",
      "pad_token_id",  "pretraining_tp",       "quantization_config",
      "torch_dtype",   "transformers_version", "unk_token_id",
      "use_cache"};
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

// What the family did not ask for: refused where it would change the arithmetic, else listed.
void judge_rest(const json& config, const Keys& asked, Faults& faults, ModelPlan& plan) {
  for (const auto& [key, value] : config.items()) {
    if (asked.contains(key)) continue;
    const ArithmeticKey* known = find_arithmetic(key);
    if (known != nullptr && !value.is_null() && !is_neutral(value, *known)) {
      faults.unsupported(in_quotes(key) + " is " + describe(value) + "; " +
                         std::string(known->what) + " is not built");
    }
    if (!is_bookkeeping(key)) plan.ignored_keys.push_back(key.substr(0, 80));
  }
}

void check_quantised(const JsonFields& config) {
  if (config.has("quantization_config")) {
    if (const std::optional<JsonFields> how = config.object("quantization_config")) {
      (void)published::make_reader(*how);
    }
  }
  // Splits sums for a bit-exact match with a training set-up; any count is the same mathematics.
  (void)config.count("pretraining_tp", 1, 1, kMaxWidth);
}

// Folders of other kinds, which are known by a key of their own.
void check_other_kinds(const JsonFields& config) {
  Faults& faults = config.faults();
  const std::optional<JsonFields> how =
      config.has("quantization_config") ? config.object("quantization_config") : std::nullopt;
  const bool named =
      how && (how->has("quant_method") || how->has("load_in_4bit") || how->has("load_in_8bit"));
  // MLX writes the same object under both keys, without a method.
  if (config.has("quantization") && !named) {
    faults.unsupported(config.name("quantization") +
                       " is there: a folder that MLX quantised, with codes in u32, 'scales' and "
                       "'biases', which is not read; open the model that it was made from, or "
                       "convert it with 'mlx_lm.convert --dequantize'");
  }
  if (config.has("compression_config") && !config.has("quantization_config")) {
    faults.unsupported(config.name("compression_config") +
                       " is there, which old versions of compressed-tensors wrote in place of "
                       "'quantization_config'; expected the newer name – rename the key, with "
                       "'quant_method' \"compressed-tensors\" in it");
  }
}

Status check_as(const json& config, std::string_view as, std::string_view name) {
  const std::string wanted = "model.as is " + in_quotes(as);
  if (find_family(as) == nullptr) {
    return invalid_argument(wanted + ", which is no family that runs" + nearest_family(as));
  }
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string()) return {};
  const std::string& own = type->get_ref<const std::string&>();
  if (find_family(own) == nullptr && !is_whole_model(own)) return {};
  return invalid_argument(std::string(name) + ": model_type " + in_quotes(own) +
                          " runs as what it is; " + wanted + " – leave it out");
}

}  // namespace

Result<std::string> read_config_as(std::string_view text, std::string_view as,
                                   std::string_view name) {
  Result<json> parsed = parse_json_object(text);
  if (!parsed.ok()) return with_context(name, parsed.status());
  TENON_RETURN_IF_ERROR(check_as(*parsed, as, name));
  nlohmann::ordered_json config = in_order(text);
  const std::string own =
      config.contains("model_type") ? describe((*parsed)["model_type"]) : "missing";
  config["model_type"] = as;
  config.erase("architectures");
  TENON_ASSIGN_OR_RETURN(const ModelPlan plan, parse_model_config(config.dump(), name));
  std::string unread;
  for (const std::string& key : plan.ignored_keys) {
    unread += (unread.empty() ? "; not read: " : ", ") + in_quotes(key);
  }
  log(LogLevel::warning, "model",
      std::string(name) + ": model_type " + own + " is read as '" + std::string(as) +
          "', as model.as says. Whether it computes the same is not known: compare its logits with "
          "its own program's before you trust them" +
          unread);
  return config.dump();
}

Result<ModelPlan> parse_model_config(std::string_view text, std::string_view name) {
  Result<json> parsed = parse_json_object(text);
  if (!parsed.ok()) return with_context(name, parsed.status());
  Faults faults;
  check_other_kinds(JsonFields(*parsed, faults));
  const TextPart text_part = find_text_part(*parsed, faults);
  if (faults.any()) return faults.status(name);
  const json& own = text_part.of.empty() ? *parsed : text_part.config;
  Keys asked;
  const JsonFields fields(own, faults, text_part.of.empty() ? "" : "text_config.", &asked);
  const Family* family = read_family(fields);
  if (family == nullptr) return faults.status(name);
  ModelPlan plan;
  plan.architecture = family->model_type;
  plan.text_part_of = text_part.of;
  family->read(fields, plan);
  if (text_part.plain_head) {
    plan.logit_scale = 1.0f;
    plan.logit_soft_cap = 0.0f;
  }
  judge_rest(own, asked, faults, plan);
  check_quantised(fields);
  if (faults.any()) return faults.status(name);
  return plan;
}

}  // namespace tenon
