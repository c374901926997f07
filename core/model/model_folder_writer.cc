#include "core/model/model_folder_writer.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/mapped_file.h"
#include "core/base/new_file.h"
#include "core/base/quote.h"
#include "core/model/model_family.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",        "tokenizer.model",         "vocab.json",        "merges.txt",
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"};

ordered_json rope_scaling(const RopeScaling& scaling) {
  if (scaling.kind == RopeScalingKind::linear) {
    return {{"rope_type", "linear"}, {"factor", scaling.factor}};
  }
  if (scaling.kind == RopeScalingKind::llama3) {
    return {{"rope_type", "llama3"},
            {"factor", scaling.factor},
            {"low_freq_factor", scaling.low_freq_factor},
            {"high_freq_factor", scaling.high_freq_factor},
            {"original_max_position_embeddings", scaling.original_context_tokens}};
  }
  return nullptr;
}

void add_windows(const ModelConfig& config, WindowRule rule, ordered_json& out) {
  if (rule == WindowRule::none) return;
  const uint32_t widest = std::ranges::max(config.window_tokens);
  out["sliding_window"] = widest > 0 ? ordered_json(widest) : ordered_json(nullptr);
  if (rule == WindowRule::every_layer) return;
  out["use_sliding_window"] = widest > 0;
  ordered_json types = ordered_json::array();
  for (const uint32_t window : config.window_tokens) {
    types.push_back(window > 0 ? "sliding_attention" : "full_attention");
  }
  out["layer_types"] = std::move(types);
}

}  // namespace

double shortest_double(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double back = 0.0;
  std::from_chars(text, end, back);
  return back;
}

std::string model_config_json(const ModelConfig& config, DType dtype) {
  const ModelFamily& family = *find_model_family(config.architecture);
  ordered_json out;
  out["architectures"] = {std::string(family.class_stem) + "ForCausalLM"};
  out["model_type"] = config.architecture;
  out["hidden_act"] = "silu";
  out["hidden_size"] = config.hidden;
  out["intermediate_size"] = config.intermediate;
  out["num_hidden_layers"] = config.layers;
  out["num_attention_heads"] = config.heads;
  out["num_key_value_heads"] = config.kv_heads;
  out["head_dim"] = config.head_dim;
  out["vocab_size"] = config.vocabulary;
  out["max_position_embeddings"] = config.context_tokens;
  out["rms_norm_eps"] = shortest_double(config.norm_eps);
  out["rope_theta"] = config.rope_theta;
  out["rope_scaling"] = rope_scaling(config.rope_scaling);
  out["tie_word_embeddings"] = config.tied_embeddings;
  if (family.attention_bias == BiasRule::by_key) out["attention_bias"] = config.qkv_bias;
  if (family.mlp_bias_key) out["mlp_bias"] = config.mlp_bias;
  add_windows(config, family.window, out);
  out["bos_token_id"] = config.bos ? ordered_json(*config.bos) : ordered_json(nullptr);
  out["eos_token_id"] = config.eos.size() == 1 ? ordered_json(config.eos[0])
                        : config.eos.empty()   ? ordered_json(nullptr)
                                               : ordered_json(config.eos);
  out["torch_dtype"] = dtype == DType::f32   ? "float32"
                       : dtype == DType::f16 ? "float16"
                                             : "bfloat16";
  return out.dump(1) + "\n";
}

Status check_float_type(DType dtype) {
  if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) return {};
  return invalid_argument("weights of type " + in_quotes(dtype_name(dtype)) +
                          " cannot be made; there are f32, f16 and bf16");
}

Status create_model_folder(const std::string& folder) {
  std::error_code fault;
  fs::create_directories(folder, fault);
  if (fault || !fs::is_directory(folder, fault)) {
    return failed("cannot create the folder " + path_in_quotes(folder) + ": " + fault.message());
  }
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
    if (!fs::exists(fs::path(folder) / name, fault)) continue;
    return invalid_argument(path_in_quotes(folder) + " already holds a model (" + name +
                            "); choose another folder, or remove it first");
  }
  return {};
}

Status copy_if_present(const std::string& from, const std::string& to, const std::string& name) {
  std::error_code fault;
  const fs::path source = fs::path(from) / name;
  if (!fs::exists(source, fault)) return {};
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(source.string()));
  const std::string_view content(reinterpret_cast<const char*>(file.bytes().data()),
                                 file.bytes().size());
  return write_file((fs::path(to) / name).string(), {content});
}

Status copy_tokenizer(const std::string& from, const std::string& to) {
  std::error_code fault;
  const fs::path folder(from);
  const bool there = fs::exists(folder / "tokenizer.json", fault) ||
                     fs::exists(folder / "tokenizer.model", fault) ||
                     fs::exists(folder / "vocab.json", fault);
  if (!there) {
    return not_found(in_quotes(from) +
                     " has no tokenizer; expected tokenizer.json, tokenizer.model or vocab.json");
  }
  for (const char* name : kTokenizerFiles) TENON_RETURN_IF_ERROR(copy_if_present(from, to, name));
  return {};
}

std::span<const char* const> model_folder_files() {
  static const std::vector<const char*> kFiles = [] {
    std::vector<const char*> all(std::begin(kTokenizerFiles), std::end(kTokenizerFiles));
    all.insert(all.end(), {"config.json", "generation_config.json", "model.safetensors"});
    return all;
  }();
  return kFiles;
}

}  // namespace tenon
