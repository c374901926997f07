#include "tools/tenon/model_info.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/gguf.h"
#include "core/base/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/gguf_checkpoint.h"
#include "core/model/model.h"
#include "core/tokenizer/tokenizer.h"
#include "tools/tenon/json_text.h"
#include "tools/tenon/standard_output.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

// Weight matrices by format: "bf16" → count.
std::map<std::string, uint32_t> formats_of(const Model& model) {
  std::map<std::string, uint32_t> formats;
  const auto count = [&formats](const Weight& weight) { ++formats[weight.format]; };
  count(model.embedding);
  if (!model.config.tied_embeddings) count(model.head);
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) {
      count(*weight);
    }
  }
  return formats;
}

std::string rope_text(const ModelConfig& config) {
  std::string text = "theta " + format_real(config.rope_theta);
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind == RopeScalingKind::linear) {
    text += ", linear scaling by " + format_real(scaling.factor);
  } else if (scaling.kind == RopeScalingKind::llama3) {
    text += ", llama3 scaling by " + format_real(scaling.factor) + " beyond " +
            std::to_string(scaling.original_context_tokens);
  }
  return text;
}

std::string features_of(const ModelConfig& config) {
  std::vector<std::string> features;
  if (config.kv_heads < config.heads) {
    features.push_back("grouped-query attention (" +
                       std::to_string(config.heads / config.kv_heads) + " query heads a KV head)");
  }
  if (config.tied_embeddings) features.push_back("tied embeddings");
  if (config.qkv_bias) features.push_back("QKV bias");
  if (config.output_bias) features.push_back("output bias");
  if (config.mlp_bias) features.push_back("MLP bias");
  if (config.qk_norm) features.push_back("QK norm");
  const auto windowed = std::count_if(config.window_tokens.begin(), config.window_tokens.end(),
                                      [](uint32_t window) { return window > 0; });
  if (windowed > 0) {
    const uint32_t window =
        *std::max_element(config.window_tokens.begin(), config.window_tokens.end());
    features.push_back("sliding window of " + std::to_string(window) + " in " +
                       std::to_string(windowed) + " of " + std::to_string(config.layers) +
                       " layers");
  }
  return features.empty() ? "none beyond the basic decoder" : join(features);
}

uint64_t kv_elements_per_token(const ModelConfig& config) {
  return uint64_t{2} * config.layers * config.kv_heads * config.head_dim;
}

Json to_json(const Model& model, const Tokenizer* tokenizer) {
  const ModelConfig& config = model.config;
  Json out;
  out["path"] = model.path;
  out["architecture"] = config.architecture;
  out["parameters"] = model.parameter_count();
  out["weight_bytes"] = model.weight_bytes();
  out["formats"] = formats_of(model);
  out["hidden"] = config.hidden;
  out["intermediate"] = config.intermediate;
  out["layers"] = config.layers;
  out["heads"] = config.heads;
  out["kv_heads"] = config.kv_heads;
  out["head_dim"] = config.head_dim;
  out["vocabulary"] = config.vocabulary;
  out["context_tokens"] = config.context_tokens;
  out["rope"] = rope_text(config);
  out["features"] = features_of(config);
  out["kv_elements_per_token"] = kv_elements_per_token(config);
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
    if (key == "weight_bytes") {
      putf("  (%s)", approximate_bytes(value.get<uint64_t>()).c_str());
    }
    put("\n");
  }
}

// What a GGUF file holds, whether or not it can be run.
Result<Json> container_json(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::open(path));
  Result<GgufFile> file = GgufFile::parse(mapped.bytes());
  if (!file.ok()) return with_context(path, file.status());
  std::map<std::string, uint32_t> types;
  for (const GgufTensor& tensor : file->tensors()) ++types[tensor_type_name(tensor.type)];
  const GgufValue* architecture = file->find("general.architecture");
  const GgufValue* name = file->find("general.name");
  Json out;
  out["path"] = path;
  out["container"] = "gguf version " + std::to_string(file->version());
  if (name != nullptr) out["name"] = name->text().value_or("?");
  out["architecture"] = architecture == nullptr ? "?" : architecture->text().value_or("?");
  out["bytes"] = mapped.bytes().size();
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

}  // namespace

Status print_model_info(const std::string& folder, bool json) {
  Result<std::unique_ptr<Model>> opened = open_model(folder);
  if (!opened.ok() && is_model_file(folder)) {
    return print_unrunnable(folder, opened.status(), json);
  }
  if (!opened.ok()) return opened.take_status();
  const std::unique_ptr<Model> model = *std::move(opened);
  // A checkpoint without a tokenizer is still a checkpoint.
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(folder);
  const Json info = to_json(*model, tokenizer.ok() ? tokenizer->get() : nullptr);
  if (json) {
    put(json_text(info));
    return {};
  }
  print(info);
  if (!tokenizer.ok()) {
    putf("%-22s none: %s\n", "tokenizer", message_of(tokenizer.status()).c_str());
  }
  return {};
}

}  // namespace tenon
