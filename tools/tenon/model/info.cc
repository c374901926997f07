#include "tools/tenon/model/info.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/files/gguf_parts.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/model.h"
#include "core/model/plan/plan_lines.h"
#include "core/model/stored_formats.h"
#include "core/pipeline/text_ends.h"
#include "core/request/parameters.h"
#include "core/tokenizer/tokenizer.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

std::string scaling_text(const RopeScaling& scaling) {
  const std::string beyond = " beyond " + std::to_string(scaling.original_context_tokens);
  switch (scaling.kind) {
    case RopeScalingKind::none:
      return "";
    case RopeScalingKind::linear:
      return ", linear scaling by " + format_real(scaling.factor);
    case RopeScalingKind::dynamic:
      return ", dynamic scaling by " + format_real(scaling.factor);
    case RopeScalingKind::llama3:
      return ", llama3 scaling by " + format_real(scaling.factor) + beyond;
    case RopeScalingKind::yarn:
      return ", YaRN scaling by " + format_real(scaling.factor) + beyond;
    case RopeScalingKind::longrope:
      return ", LongRoPE scaling" + beyond;
  }
  return "";
}

// Of queries, as the checkpoint has them.
uint32_t head_dim_of(const LayerPlan& layer) {
  return layer.latent ? layer.latent.q_dim() : layer.attention.head_dim;
}

std::string rope_text(const ModelPlan& plan) {
  std::string text;
  for (const RopePlan& rope : plan.ropes) {
    if (!text.empty()) text += "; ";
    text += "theta " + format_real(rope.theta) + scaling_text(rope.scaling);
    const auto attending = std::ranges::find_if(plan.layers, &LayerPlan::attends);
    if (attending != plan.layers.end() && rope.dim < head_dim_of(*attending)) {
      text += ", " + std::to_string(rope.dim) + " elements of a head";
    }
    if (rope.pairs) text += ", in pairs";
  }
  if (plan.learned_positions) text += text.empty() ? "learned positions" : "; learned positions";
  if (plan.layers.front().attention.alibi_max_bias > 0) return "none; ALiBi";
  return text.empty() ? "none" : text;
}

void add_window(const ModelPlan& plan, std::vector<std::string>& features) {
  uint32_t window = 0, windowed = 0;
  for (const LayerPlan& layer : plan.layers) {
    windowed += layer.attention.window_tokens > 0 ? 1 : 0;
    window = std::max(window, layer.attention.window_tokens);
  }
  if (windowed == 0) return;
  const bool chunks = std::ranges::any_of(
      plan.layers, [](const LayerPlan& layer) { return layer.attention.window_chunks; });
  features.push_back((chunks ? "chunks of " : "sliding window of ") + std::to_string(window) +
                     " in " + std::to_string(windowed) + " of " +
                     std::to_string(plan.layers.size()) + " layers");
}

void add_sharing(const ModelPlan& plan, std::vector<std::string>& features) {
  const auto sharing = std::ranges::count_if(
      plan.layers, [](const LayerPlan& layer) { return layer.attention.kv_from_layer >= 0; });
  if (sharing == 0) return;
  features.push_back("K/V of another layer in " + std::to_string(sharing) + " of " +
                     std::to_string(plan.layers.size()) + " layers");
}

void add_shared_blocks(const ModelPlan& plan, std::vector<std::string>& features) {
  const auto count = [&](auto has) {
    return std::to_string(std::ranges::count_if(plan.layers, has));
  };
  if (!plan.reads_embedded()) return;
  features.push_back("shared blocks (" +
                     count([](const LayerPlan& l) { return l.shared && !l.shared.borrows(); }) +
                     ") in " + count([](const LayerPlan& l) { return bool{l.shared}; }) + " of " +
                     std::to_string(plan.layers.size()) + " layers");
}

// What recurrent layers keep of a sequence, however long it is.
uint64_t state_bytes(const ModelPlan& plan) {
  uint64_t bytes = 0;
  for (const LayerPlan& layer : plan.layers) {
    if (layer.recurrent) bytes += layer.recurrent.state_bytes();
  }
  return bytes;
}

void add_recurrences(const ModelPlan& plan, std::vector<std::string>& features) {
  const auto recurs = [](const LayerPlan& layer) { return bool{layer.recurrent}; };
  const auto found = std::ranges::find_if(plan.layers, recurs);
  if (found == plan.layers.end()) return;
  const RecurrentPlan& own = found->recurrent;
  const bool lightning = own.kind == Recurrence::lightning;
  std::string text = (lightning ? "lightning attention" : std::string(recurrence_name(own.kind))) +
                     " in " + std::to_string(std::ranges::count_if(plan.layers, recurs)) + " of " +
                     std::to_string(plan.layers.size()) + " layers (";
  if (own.head_dim == 1) {
    text += std::to_string(own.heads) + " channels";
  } else {
    const bool keys = own.kind == Recurrence::gated_delta;
    text += std::to_string(own.heads) + " heads of " + std::to_string(own.head_dim) + " in " +
            std::to_string(own.groups) +
            (keys              ? " of keys"
             : own.groups == 1 ? " group"
                               : " groups");
  }
  if (own.state > 0) text += ", states of " + std::to_string(own.state);
  if (own.width > 1) text += ", convolution of " + std::to_string(own.width);
  features.push_back(text + ")");
}

void add_experts(const ModelPlan& plan, std::vector<std::string>& features) {
  const auto has_experts = [](const LayerPlan& layer) { return static_cast<bool>(layer.experts); };
  const auto first = std::ranges::find_if(plan.layers, has_experts);
  if (first == plan.layers.end()) return;
  const ExpertsPlan& experts = first->experts;
  std::string text = std::to_string(experts.chosen) + " of " + std::to_string(experts.count) +
                     " experts of " + std::to_string(experts.width);
  if (experts.shared_width > 0) {
    text += " and a shared one of " + std::to_string(experts.shared_width);
  }
  const auto layers = std::ranges::count_if(plan.layers, has_experts);
  if (layers < static_cast<ptrdiff_t>(plan.layers.size())) {
    text +=
        ", in " + std::to_string(layers) + " of " + std::to_string(plan.layers.size()) + " layers";
  }
  features.push_back(text);
}

std::string features_of(const ModelPlan& plan) {
  // What attention has of options, and the MLP, is said of the first layer that attends.
  const auto attending = std::ranges::find_if(plan.layers, &LayerPlan::attends);
  const LayerPlan& layer = attending == plan.layers.end() ? plan.layers.front() : *attending;
  const SelfAttentionPlan& attention = layer.attention;
  const LatentAttentionPlan& latent = layer.latent;
  const auto attend = std::ranges::count_if(plan.layers, &LayerPlan::attends);
  const auto rotated = std::ranges::count_if(plan.layers, [](const LayerPlan& each) {
    return each.attends() && each.attention.rope >= 0;
  });
  std::vector<std::string> features;
  const auto add = [&](bool has, const std::string& text) {
    if (has) features.push_back(text);
  };
  add(static_cast<bool>(latent), "latent attention (rows of " + std::to_string(latent.kv_rank) +
                                     " + " + std::to_string(latent.rope_dim) + ")");
  add(latent.q_rank > 0, "q in two steps (rank " + std::to_string(latent.q_rank) + ")");
  add(latent.bias, "biases of low ranks");
  add(static_cast<bool>(layer.index),
      "an index of positions (" + std::to_string(layer.index.heads) + " heads of " +
          std::to_string(layer.index.dim) + " choose " + std::to_string(layer.index.chosen) + ")");
  const auto sharing = std::ranges::count_if(
      plan.layers, [](const LayerPlan& each) { return each.index && each.index.heads == 0; });
  add(sharing > 0, "a choice shared in " + std::to_string(sharing) + " of " +
                       std::to_string(plan.layers.size()) + " layers");
  add_sharing(plan, features);
  if (!latent && attention.kv_heads < attention.heads) {
    add(true, "grouped-query attention (" + std::to_string(attention.heads / attention.kv_heads) +
                  " query heads a KV head)");
  }
  add(plan.tied_embeddings, "tied embeddings");
  add(attention.qkv_bias, "QKV bias");
  add(attention.output_bias, "output bias");
  add(layer.mlp.bias, "MLP bias");
  add(static_cast<bool>(attention.qk_norm), "QK norm");
  add(attention.v_norm_eps > 0, "norm of V");
  add(attention.k_is_v, "V made of K");
  const auto any = [&](auto has) { return std::ranges::any_of(plan.layers, has); };
  add(any([](const LayerPlan& l) { return bool{l.attention.q_growth}; }),
      "q that grows with the position");
  add(attention.v_head_dim > 0, "V of another width (" + std::to_string(attention.v_dim()) + ")");
  add(std::ranges::any_of(
          plan.layers,
          [&](const LayerPlan& l) { return l.attends() && l.attention.heads != attention.heads; }),
      "heads by layer");
  add(attention.output_gate,
      attention.gate_by_head ? "gate of each head after attention" : "gate after attention");
  add_window(plan, features);
  add_recurrences(plan, features);
  add(attention.soft_cap > 0 || plan.logit_soft_cap > 0, "soft caps");
  add(layer.attention_norm.kind == NormKind::layer, "layer norms");
  add(layer.attention_norm && layer.attention_post_norm, "norms before and after each half");
  add(!layer.attention_norm, "norms after each half");
  add(layer.has_mlp() && !layer.mlp.gated, "plain MLP");
  add(!layer.has_mlp(), "no MLP");
  add(static_cast<bool>(plan.embedding_norm), "norm of embeddings");
  add(plan.head_bias, "bias of logits");
  add_experts(plan, features);
  add(static_cast<bool>(layer.experts.beside_norm), "experts next to the MLP");
  add(any([](const LayerPlan& l) { return l.experts.factors_first; }),
      "factors on what experts read");
  add(any([](const LayerPlan& l) { return l.experts.aside; }), "experts that join a layer later");
  add(any([](const LayerPlan& l) { return l.experts.idle > 0; }), "experts that do nothing");
  add(any([](const LayerPlan& l) {
        return l.mlp.limit > 0 || l.experts.limit > 0 || l.experts.shared_limit > 0;
      }),
      "limits on gates");
  add(layer.mixer_keeps > 0, "norms that become the stream");
  add(static_cast<bool>(layer.streams),
      "several residual streams (" + std::to_string(layer.streams.count) + ")");
  add(static_cast<bool>(layer.low_residual), "a learned residual");
  add_shared_blocks(plan, features);
  add(attention.learned_mask, "learned masks of scores");
  add(layer.weighs_stream, "weights of the stream");
  add(std::ranges::any_of(plan.layers, [](const LayerPlan& l) { return l.mlp.cuts_gate; }),
      "gates cut off");
  add(static_cast<bool>(layer.attention.attended_norm), "norms inside both halves");
  add(static_cast<bool>(layer.input), "per-layer embeddings");
  add(std::ranges::any_of(plan.layers, [](const LayerPlan& l) { return l.attention.sinks; }),
      "attention sinks");
  add(plan.mask_token.has_value(),
      "diffusion (mask " + std::to_string(plan.mask_token.value_or(kNoToken)) + ")");
  add(attention.clip > 0, "clipped q, k and v");
  add(layer.parallel, "parallel residuals");
  add(!plan.ropes.empty() && rotated < attend, "no positions in " +
                                                   std::to_string(attend - rotated) + " of " +
                                                   std::to_string(plan.layers.size()) + " layers");
  return features.empty() ? "none beyond the basic decoder" : join(features);
}

// Those that a token meets: the chosen experts alone.
uint64_t active_parameters(const Model& model) {
  uint64_t idle = 0;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const ExpertsPlan& experts = model.plan.layers[i].experts;
    if (!experts) continue;
    const uint64_t matrices = 3 * uint64_t{experts.width} * model.plan.hidden;
    const uint64_t biases = experts.bias ? 2 * uint64_t{experts.width} + model.plan.hidden : 0;
    idle += (experts.count - experts.chosen) * (matrices + biases);
  }
  return model.parameter_count() - idle;
}

uint64_t kv_elements_per_token(const ModelPlan& plan) {
  uint64_t elements = 0;
  for (const LayerPlan& layer : plan.layers) {
    if (layer.attention.kv_from_layer >= 0) continue;
    elements += uint64_t{layer.attention.kv_heads} * layer.attention.k_dim();
    elements += layer.latent ? 0 : layer.attention.v_width();
    if (layer.index.heads > 0) elements += layer.index.dim;
  }
  return elements;
}

// The tokens that end a text, with who says so.
Json ends_json(const Model& model, const Tokenizer* tokenizer) {
  Json all = Json::array();
  for (const TextEnd& end : text_ends(model, tokenizer)) {
    Json one = {{"token", end.token}};
    if (tokenizer != nullptr) one["text"] = tokenizer->piece(end.token);
    one["named_by"] = end.named_by;
    all.push_back(std::move(one));
  }
  return all;
}

// What its own files recommend for answers, by the names of parameters.
Json advice_json(const GenerationDefaults& advice) {
  Json out = Json::object();
  for (size_t i = 0; i < kSamplingKeyCount; ++i) {
    const auto& value = advice.sampling[i];
    const SamplingKey& key = sampling_keys()[i];
    if (!value) continue;
    if (parameter(key.name).number.whole) out[std::string(key.name)] = static_cast<int64_t>(*value);
    if (!parameter(key.name).number.whole) out[std::string(key.name)] = *value;
  }
  if (advice.max_tokens) out["max_tokens"] = *advice.max_tokens;
  if (advice.min_tokens) out["min_tokens"] = *advice.min_tokens;
  if (advice.length_penalty) out["length_penalty"] = *advice.length_penalty;
  if (advice.early_stopping) out["early_stopping"] = *advice.early_stopping;
  if (!advice.bad_words.empty()) out["bad_words"] = advice.bad_words;
  if (!advice.stop.empty()) out["stop"] = advice.stop;
  for (const SamplingStage stage : advice.order) {
    out["order"].push_back(sampling_stage_name(stage));
  }
  return out;
}

Json to_json(const Model& model, const Tokenizer* tokenizer) {
  const ModelPlan& plan = model.plan;
  const auto attending = std::ranges::find_if(plan.layers, &LayerPlan::attends);
  const LayerPlan& layer = attending == plan.layers.end() ? plan.layers.front() : *attending;
  Json out;
  out["path"] = model.path;
  if (const size_t parts = gguf_part_paths(model.path).size(); parts > 1) out["parts"] = parts;
  out["architecture"] = plan.architecture;
  if (!plan.text_part_of.empty()) {
    out["part"] = "text part of a " + plan.text_part_of + " model; " +
                  std::to_string(model.other_tensors) +
                  " tensors of its other parts are not loaded";
  }
  out["parameters"] = model.parameter_count();
  if (const uint64_t active = active_parameters(model); active < model.parameter_count()) {
    out["active_parameters"] = active;
  }
  out["weight_bytes"] = model.weight_bytes();
  out["formats"] = stored_formats(model);
  out["hidden"] = plan.hidden;
  out["intermediate"] = layer.mlp.width;
  out["layers"] = plan.layers.size();
  out["heads"] = layer.attention.heads;
  out["kv_heads"] = layer.attention.kv_heads;
  out["head_dim"] = head_dim_of(layer);
  out["vocabulary"] = plan.vocabulary;
  out["context_tokens"] = plan.context_tokens;
  out["rope"] = rope_text(plan);
  out["features"] = features_of(plan);
  out["kv_elements_per_token"] = kv_elements_per_token(plan);
  if (const uint64_t bytes = state_bytes(plan); bytes > 0) out["state_bytes"] = bytes;
  if (model.activation_scales > 0) {
    out["activation_scales"] = std::to_string(model.activation_scales) +
                               " tensors, not used: kernels round activations in their own way";
  }
  if (!plan.ignored_keys.empty()) out["ignored_keys"] = plan.ignored_keys;
  out["ends"] = ends_json(model, tokenizer);
  if (Json advice = advice_json(model.generation); !advice.empty()) {
    out["recommends"] = std::move(advice);
  }
  if (!model.generation.unused.empty()) out["recommends_unused"] = model.generation.unused;
  if (tokenizer != nullptr) {
    out["tokenizer"] = {{"kind", tokenizer->kind()}, {"vocabulary", tokenizer->vocab_size()}};
  }
  return out;
}

void print(const Json& info) {
  for (const auto& [key, value] : info.items()) {
    const std::string text = value.is_string()
                                 ? one_line(value.get<std::string>(), kMostPathBytes)
                                 : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    putf("%-22s %s", key.c_str(), text.c_str());
    if (key == "weight_bytes" || key == "state_bytes") {
      putf("  (%s)", approximate_bytes(value.get<uint64_t>()).c_str());
    }
    put("\n");
  }
}

// What a GGUF file holds, whether or not it can be run.
Result<Json> container_json(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const GgufParts files, GgufParts::open(path));
  const GgufFile* file = &files.file();
  std::map<std::string, uint32_t> types;
  for (const GgufTensor& tensor : file->tensors()) ++types[tensor_type_name(tensor.type)];
  const GgufValue* architecture = file->find("general.architecture");
  const GgufValue* name = file->find("general.name");
  Json out;
  out["path"] = path;
  out["container"] = "gguf version " + std::to_string(file->version());
  if (files.parts().size() > 1) out["parts"] = files.parts().size();
  if (name != nullptr) out["name"] = name->text().value_or("?");
  out["architecture"] = architecture == nullptr ? "?" : architecture->text().value_or("?");
  out["bytes"] = files.total_bytes();
  out["tensors"] = file->tensors().size();
  out["formats"] = types;
  return out;
}

// Of a file that is sound, but holds what is not built.
Status print_unrunnable(const std::string& path, const Status& reason, bool json) {
  TENON_ASSIGN_OR_RETURN(Json info, container_json(path));
  info["runs"] = "no: " + message_of(reason);
  if (json) {
    put(json_text(info));
  } else {
    print(info);
  }
  return {};
}

Json plan_json(const ModelPlan& plan) {
  Json lines = Json::array();
  for (const PlanLine& line : plan_lines(plan)) {
    lines.push_back(
        {{"of", line.of}, {"what", line.what}, {"key", line.key}, {"value", line.value}});
  }
  return lines;
}

void print_plan(const ModelPlan& plan) {
  std::string of;
  for (const PlanLine& line : plan_lines(plan)) {
    if (line.of != of) put("\n" + line.of + "\n");
    of = line.of;
    const std::string key = line.key.empty() ? "" : " (" + line.key + ")";
    put("  " + one_line(line.what + key + ": " + line.value, kMostPathBytes) + "\n");
  }
}

}  // namespace

Status print_model_info(const std::string& folder, bool json, bool plan, const std::string& as) {
  Result<std::unique_ptr<Model>> opened = open_model(folder, as);
  if (!opened.ok() && is_model_file(folder)) {
    return print_unrunnable(folder, opened.status(), json);
  }
  if (!opened.ok()) return opened.take_status();
  const std::unique_ptr<Model> model = *std::move(opened);
  // A checkpoint without a tokenizer is still a checkpoint.
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(folder);
  const Tokenizer* words = tokenizer.ok() ? tokenizer->get() : nullptr;
  Json info = to_json(*model, words);
  if (json) {
    if (plan) info["plan"] = plan_json(model->plan);
    put(json_text(info));
    return {};
  }
  info["ends"] = text_ends_text(text_ends(*model, words), words);
  print(info);
  if (!tokenizer.ok()) {
    putf("%-22s none: %s\n", "tokenizer", message_of(tokenizer.status()).c_str());
  }
  if (plan) print_plan(model->plan);
  return {};
}

}  // namespace tenon
