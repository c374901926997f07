#include <algorithm>
#include <filesystem>
#include <map>

#include "core/base/quote.h"
#include "core/files/gguf_parts.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/checkpoint/gguf_config.h"
#include "core/model/checkpoint/gguf_lists.h"
#include "core/model/checkpoint/gguf_planner.h"
#include "core/model/convert/convert.h"
#include "core/model/convert/convert_check.h"
#include "core/model/convert/gguf_writer.h"
#include "core/model/families/family.h"
#include "core/model/plan/plan_difference.h"
#include "core/model/tensors/model_tensors.h"

namespace tenon {
namespace {

// general.file_type, for people: which type most matrices have.
uint32_t file_type(const TensorType& type) {
  constexpr std::pair<std::string_view, uint32_t> kFileTypes[] = {
      {"f16", 1},
      {"bf16", 32},
#define TENON_GGUF_FORMAT(name, type, file_type, ...) {#name, file_type},
#include <tenon/formats/weight_formats.def>
  };
  const auto* found =
      std::ranges::find(kFileTypes, type.name, [](const auto& pair) { return pair.first; });
  return found == std::end(kFileTypes) ? 0 : found->second;
}

// GGUF keeps real numbers as f32.
Status add_real(const std::string& key, double value, GgufMetadata& out) {
  const auto narrow = static_cast<float>(value);
  if (double{narrow} != value) {
    return unsupported(in_quotes(key) + " would be " + std::to_string(value) +
                       ", which f32, the type of that key, cannot hold exactly");
  }
  out.add_real(key, narrow);
  return {};
}

Status add_scaling(const RopePlan& rope, const std::string& arch, GgufMetadata& out) {
  const RopeScaling& scaling = rope.scaling;
  const std::string original = arch + ".rope.scaling.original_context_length";
  switch (scaling.kind) {
    case RopeScalingKind::none:
    case RopeScalingKind::dynamic:
      return {};
    case RopeScalingKind::linear:
      out.add_text(arch + ".rope.scaling.type", "linear");
      return add_real(arch + ".rope.scaling.factor", scaling.factor, out);
    case RopeScalingKind::llama3:
      // The factors go into a tensor; what they were made from lets us compute them as precisely
      // again.
      out.add_exact("tenon.rope.llama3.factor", scaling.factor);
      out.add_exact("tenon.rope.llama3.low_freq_factor", scaling.low_freq_factor);
      out.add_exact("tenon.rope.llama3.high_freq_factor", scaling.high_freq_factor);
      out.add_count("tenon.rope.llama3.original_context_length", scaling.original_context_tokens);
      return {};
    case RopeScalingKind::yarn:
      out.add_text(arch + ".rope.scaling.type", "yarn");
      out.add_count(original, scaling.original_context_tokens);
      TENON_RETURN_IF_ERROR(
          add_real(arch + ".rope.scaling.yarn_beta_fast", scaling.beta_fast, out));
      TENON_RETURN_IF_ERROR(
          add_real(arch + ".rope.scaling.yarn_beta_slow", scaling.beta_slow, out));
      return add_real(arch + ".rope.scaling.factor", scaling.factor, out);
    case RopeScalingKind::longrope:
      out.add_count(original, scaling.original_context_tokens);
      out.add_real(arch + ".rope.scaling.attn_factor",
                   static_cast<float>(scaling.attention_factor));
      return {};
  }
  return {};
}

const SelfAttentionPlan& attention_of(const ModelPlan& plan);

Status add_rope(const ModelPlan& plan, const std::string& arch, GgufMetadata& out) {
  if (plan.ropes.empty()) return {};
  const RopePlan& rope = plan.ropes.front();
  TENON_RETURN_IF_ERROR(add_real(arch + ".rope.freq_base", rope.theta, out));
  const uint32_t whole = attention_of(plan).head_dim;
  const bool half = family_of(plan).gguf_half_rotation;
  out.add_count(arch + ".rope.dimension_count", half ? std::min(2 * rope.dim, whole) : rope.dim);
  return add_scaling(rope, arch, out);
}

Status add_windows(const ModelPlan& plan, const std::string& arch, GgufMetadata& out) {
  uint32_t widest = 0;
  std::vector<bool> sliding;
  for (const LayerPlan& layer : plan.layers) {
    // Chunks are the family's to tell of.
    const uint32_t window = layer.attention.window_chunks ? 0 : layer.attention.window_tokens;
    sliding.push_back(window > 0);
    if (window > 0 && widest > 0 && window != widest) {
      return unsupported("sliding windows of different widths have no key in GGUF files");
    }
    widest = std::max(widest, window);
  }
  if (widest == 0) return {};
  out.add_count(arch + ".attention.sliding_window", widest);
  out.add_flags(arch + ".attention.sliding_window_pattern", sliding);
  return {};
}

// The ends of a text, where the tokenizer's keys did not name them already.
Status add_ends(const std::vector<TokenId>& eos, const ModelPlan& plan, GgufMetadata& out) {
  if (plan.bos && !out.has("tokenizer.ggml.bos_token_id")) {
    out.add_count("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(*plan.bos));
  }
  constexpr const char* kKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                   "tokenizer.ggml.eom_token_id"};
  if (eos.size() > std::size(kKeys)) {
    return unsupported("the model ends a text with any of " + std::to_string(eos.size()) +
                       " tokens; GGUF files have keys for three");
  }
  size_t next = 0;
  for (const TokenId id : eos) {
    out.add_count(kKeys[next++], static_cast<uint32_t>(id));
  }
  return {};
}

// Where there are no keys for all of it, what the folder's own file says goes along as it is.
void add_generation(const Model& model, GgufMetadata& out) {
  const bool all = add_gguf_sampling(model.generation, out);
  if (!all && !model.generation_json.empty()) {
    out.add_text("tenon.generation_config", model.generation_json);
  }
}

void add_norms(const ModelPlan& plan, const std::string& arch, GgufMetadata& out) {
  const bool rms = plan.final_norm.kind == NormKind::rms;
  out.add_real(arch + (rms ? ".attention.layer_norm_rms_epsilon" : ".attention.layer_norm_epsilon"),
               plan.final_norm.eps);
}

// What layers that attend have, in all of them alike; the others have no KV heads. Where layers
// with a window have heads of their own, those of the others.
const SelfAttentionPlan& attention_of(const ModelPlan& plan) {
  const bool whole = family_of(plan).gguf_window_heads;
  const auto found = std::ranges::find_if(plan.layers, [&](const LayerPlan& layer) {
    return layer.attends() && !(whole && layer.attention.window_tokens > 0);
  });
  return (found != plan.layers.end() ? *found : plan.layers.front()).attention;
}

void add_heads(const ModelPlan& plan, const std::string& arch, GgufMetadata& out) {
  const SelfAttentionPlan& attention = attention_of(plan);
  const auto as_many = [&](const LayerPlan& layer) {
    return layer.attention.heads == attention.heads;
  };
  if (!family_of(plan).gguf_layer_heads || std::ranges::all_of(plan.layers, as_many)) {
    out.add_count(arch + ".attention.head_count", attention.heads);
  } else {
    std::vector<int32_t> heads;
    for (const LayerPlan& layer : plan.layers) {
      heads.push_back(static_cast<int32_t>(layer.attention.heads));
    }
    out.add_integers(arch + ".attention.head_count", heads);
  }
  if (attention.heads == 0) return;
  const bool by_family = family_of(plan).gguf_attention == GgufAttention::by_family;
  const auto alike = [&](const LayerPlan& layer) {
    return layer.attends() && layer.attention.kv_heads == attention.kv_heads;
  };
  if (by_family || std::ranges::all_of(plan.layers, alike)) {
    out.add_count(arch + ".attention.head_count_kv", attention.kv_heads);
  } else {
    std::vector<int32_t> kv_heads;
    for (const LayerPlan& layer : plan.layers) {
      kv_heads.push_back(static_cast<int32_t>(layer.attention.kv_heads));
    }
    out.add_integers(arch + ".attention.head_count_kv", kv_heads);
  }
  // Of latent attention, what the cache has: V is the part of a row that does not turn.
  const auto latent =
      std::ranges::find_if(plan.layers, [](const LayerPlan& layer) { return bool{layer.latent}; });
  const uint32_t v_dim = latent != plan.layers.end() ? latent->latent.kv_rank : attention.v_dim();
  out.add_count(arch + ".attention.key_length", attention.head_dim);
  out.add_count(arch + ".attention.value_length", v_dim);
  if (!family_of(plan).gguf_window_heads) return;
  const auto sliding = std::ranges::find_if(
      plan.layers, [](const LayerPlan& layer) { return layer.attention.window_tokens > 0; });
  const uint32_t dim =
      sliding == plan.layers.end() ? attention.head_dim : sliding->attention.head_dim;
  out.add_count(arch + ".attention.key_length_swa", dim);
  out.add_count(arch + ".attention.value_length_swa", dim);
}

// One for all layers, unless these differ or some have neither an MLP nor experts.
void add_mlp_widths(const ModelPlan& plan, const std::string& arch, GgufMetadata& out) {
  const uint32_t first = plan.layers.front().mlp.width;
  const auto with = std::ranges::count_if(plan.layers, &LayerPlan::has_mlp);
  const bool in_some = with > 0 && with < std::ssize(plan.layers);
  std::vector<int32_t> widths;
  for (const LayerPlan& layer : plan.layers) {
    const bool of_experts = in_some && layer.experts;
    widths.push_back(static_cast<int32_t>(of_experts ? layer.experts.width : layer.mlp.width));
  }
  const auto alike = [first](const LayerPlan& layer) { return layer.mlp.width == first; };
  const bool differ = family_of(plan).gguf_window_heads && !std::ranges::all_of(plan.layers, alike);
  if (in_some || differ) {
    out.add_integers(arch + ".feed_forward_length", widths);
  } else {
    out.add_count(arch + ".feed_forward_length", first);
  }
}

// Other programs look for the architecture first.
Status add_model(const Model& model, const TensorType& type, const GgufMetadata& tokenizer,
                 const std::vector<TokenId>& ends, GgufMetadata& out) {
  const ModelPlan& plan = model.plan;
  const Family& family = family_of(plan);
  const std::string arch(family.architecture);
  if (arch.empty()) {
    return unsupported("GGUF files have no architecture for a " + plan.architecture + " model");
  }
  out.add_text("general.architecture", arch);
  out.add_text("general.name",
               std::filesystem::path(without_gguf_part(model.path)).stem().string());
  out.add_count("general.file_type", file_type(type));
  out.add_count("general.quantization_version", 2);
  out.add_count(arch + ".vocab_size", plan.vocabulary);
  out.add_count(arch + ".context_length", plan.context_tokens);
  out.add_count(arch + ".embedding_length", plan.hidden);
  out.add_count(arch + ".block_count", static_cast<uint32_t>(plan.layers.size()));
  add_mlp_widths(plan, arch, out);
  add_heads(plan, arch, out);
  add_norms(plan, arch, out);
  TENON_RETURN_IF_ERROR(add_rope(plan, arch, out));
  TENON_RETURN_IF_ERROR(add_windows(plan, arch, out));
  if (family.to_gguf != nullptr) family.to_gguf(plan, arch, out);
  add_generation(model, out);
  out.append(tokenizer);
  return add_ends(ends, plan, out);
}

void add_stored_factors(const ModelPlan& plan, GgufPlanner& planner) {
  if (plan.ropes.empty()) return;
  const RopePlan& rope = plan.ropes.front();
  const bool llama3 = rope.scaling.kind == RopeScalingKind::llama3;
  std::vector<float> factors = llama3 ? llama3_rope_factors(rope) : rope.factors;
  if (rope.turning > 0) {
    // Other programs turn by all frequencies, of which these leave nothing.
    factors.assign(rope.dim / 2, 1e30f);
    std::fill_n(factors.begin(), rope.turning, 1.0f);
  }
  if (family_of(plan).gguf_half_rotation && !factors.empty()) {
    // One a pair of whole heads, which turn in the other layers by theirs.
    factors.resize(attention_of(plan).head_dim / 2, 1.0f);
  }
  planner.add_factors("rope_freqs.weight", factors);
  planner.add_factors("rope_factors_short.weight", rope.scaling.short_factors);
  planner.add_factors("rope_factors_long.weight", rope.scaling.long_factors);
}

std::vector<TokenId> ends_to_write(const Model& model, const ConvertOptions& options) {
  if (!options.ends.empty()) return options.ends;
  return model.ends.empty() ? model.plan.eos : end_tokens(model.ends);
}

// What a GGUF file has no key for is found by reading it again.
Status check_written(const Model& model, const std::vector<std::string>& files) {
  Result<OpenedGguf> opened = open_gguf(files.front());
  if (!opened.ok()) return opened.take_status();
  const std::string difference = plan_difference(model.plan, opened->config.plan);
  if (difference.empty()) return {};
  std::error_code fault;
  for (const std::string& file : files) std::filesystem::remove(file, fault);
  return unsupported("this " + model.plan.architecture + " model cannot be said in a GGUF file: " +
                     difference + "; keep it as a folder, which runs as it is");
}

}  // namespace

Result<WrittenGguf> write_gguf_model(const Model& model, const std::string& path,
                                     const GgufMetadata& tokenizer, const ConvertOptions& options) {
  const TensorType& type =
      options.type != nullptr ? *options.type : type_of(*model.layers.front().matrices().front());
  if (options.type != nullptr) TENON_RETURN_IF_ERROR(check_range(model, type));
  GgufMetadata metadata;
  TENON_RETURN_IF_ERROR(add_model(model, type, tokenizer, ends_to_write(model, options), metadata));
  GgufPlanner planner(model, attention_of(model.plan).head_dim, options);
  std::map<std::string_view, std::vector<float>> lists;
  for (const ModelTensor& tensor : model_tensors(model)) {
    const std::string_view key = gguf_list_key(tensor.spec.role);
    const ConstTensorPlace& place = tensor.places.front();
    if (key.empty()) {
      planner.add(tensor);
    } else {
      lists[key].push_back((*place.vector)[place.first]);
    }
  }
  for (const auto& [key, numbers] : lists) metadata.add_reals(key, numbers);
  add_stored_factors(model.plan, planner);
  WrittenGguf written;
  TENON_ASSIGN_OR_RETURN(written.files, write_gguf(path, metadata, planner.planned(),
                                                   options.progress, options.split));
  TENON_RETURN_IF_ERROR(check_written(model, written.files));
  written.kept = planner.take_kept();
  return written;
}

}  // namespace tenon
