#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/base/quote.h"
#include "core/model/convert.h"
#include "core/model/gguf_config.h"
#include "core/model/gguf_names.h"
#include "core/model/gguf_writer.h"
#include "core/model/model_tensors.h"

namespace tenon {
namespace {

// general.file_type, for people: which type most matrices have.
uint32_t file_type(const TensorType& type) {
  constexpr std::pair<std::string_view, uint32_t> kFileTypes[] = {
      {"f16", 1},  {"q4_0", 2},  {"q4_1", 3},  {"q8_0", 7},  {"q5_0", 8},
      {"q5_1", 9}, {"q4_k", 15}, {"q5_k", 17}, {"q6_k", 18}, {"bf16", 32}};
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

Status add_rope(const ModelConfig& config, const std::string& arch, GgufMetadata& out) {
  TENON_RETURN_IF_ERROR(add_real(arch + ".rope.freq_base", config.rope_theta, out));
  out.add_count(arch + ".rope.dimension_count", config.head_dim);
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind == RopeScalingKind::linear) {
    out.add_text(arch + ".rope.scaling.type", "linear");
    return add_real(arch + ".rope.scaling.factor", scaling.factor, out);
  }
  // The factors go into a tensor; what they were made from lets us compute them as precisely again.
  if (scaling.kind == RopeScalingKind::llama3) {
    out.add_exact("tenon.rope.llama3.factor", scaling.factor);
    out.add_exact("tenon.rope.llama3.low_freq_factor", scaling.low_freq_factor);
    out.add_exact("tenon.rope.llama3.high_freq_factor", scaling.high_freq_factor);
    out.add_count("tenon.rope.llama3.original_context_length", scaling.original_context_tokens);
  }
  return {};
}

Status add_windows(const ModelConfig& config, const std::string& arch, GgufMetadata& out) {
  const uint32_t widest = std::ranges::max(config.window_tokens);
  if (widest == 0) return {};
  std::vector<bool> sliding;
  for (const uint32_t window : config.window_tokens) {
    sliding.push_back(window > 0);
    if (window == 0 || window == widest) continue;
    return unsupported("sliding windows of different widths have no key in GGUF files");
  }
  out.add_count(arch + ".attention.sliding_window", widest);
  out.add_flags(arch + ".attention.sliding_window_pattern", sliding);
  return {};
}

// The ends of a text, where the tokenizer's keys did not name them already.
Status add_ends(const std::vector<TokenId>& eos, const ModelConfig& config, GgufMetadata& out) {
  if (config.bos && !out.has("tokenizer.ggml.bos_token_id")) {
    out.add_count("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(*config.bos));
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

void add_generation(const GenerationDefaults& defaults, GgufMetadata& out) {
  if (defaults.temperature) out.add_real("general.sampling.temp", *defaults.temperature);
  if (defaults.top_p) out.add_real("general.sampling.top_p", *defaults.top_p);
  if (defaults.top_k) out.add_count("general.sampling.top_k", *defaults.top_k);
}

// Other programs look for the architecture first.
Status add_model(const Model& model, const TensorType& type, const GgufMetadata& tokenizer,
                 GgufMetadata& out) {
  const ModelConfig& config = model.config;
  const std::string arch = config.architecture == "mistral" ? "llama" : config.architecture;
  out.add_text("general.architecture", arch);
  out.add_text("general.name", std::filesystem::path(model.path).stem().string());
  out.add_count("general.file_type", file_type(type));
  out.add_count("general.quantization_version", 2);
  out.add_count(arch + ".vocab_size", config.vocabulary);
  out.add_count(arch + ".context_length", config.context_tokens);
  out.add_count(arch + ".embedding_length", config.hidden);
  out.add_count(arch + ".block_count", config.layers);
  out.add_count(arch + ".feed_forward_length", config.intermediate);
  out.add_count(arch + ".attention.head_count", config.heads);
  out.add_count(arch + ".attention.head_count_kv", config.kv_heads);
  out.add_count(arch + ".attention.key_length", config.head_dim);
  out.add_count(arch + ".attention.value_length", config.head_dim);
  out.add_real(arch + ".attention.layer_norm_rms_epsilon", config.norm_eps);
  TENON_RETURN_IF_ERROR(add_rope(config, arch, out));
  TENON_RETURN_IF_ERROR(add_windows(config, arch, out));
  add_generation(model.generation, out);
  out.append(tokenizer);
  return add_ends(model.generation.eos.empty() ? config.eos : model.generation.eos, config, out);
}

// Where row `row` of a file with rows in pairs comes from.
uint64_t unpaired(uint64_t row, uint64_t head_dim) {
  const uint64_t head = row / head_dim, at = row % head_dim;
  return head * head_dim + at / 2 + (at % 2) * (head_dim / 2);
}

class Planner {
 public:
  Planner(const Model& model, const TensorType* wanted) : model_(model), wanted_(wanted) {}

  void add(const ModelTensor& tensor) {
    const bool paired = tensor.rotated_heads > 0 && gguf_pairs_rows(model_.config.architecture);
    const uint64_t head_dim = paired ? model_.config.head_dim : 0;
    if (tensor.vector != nullptr) return add_vector(tensor, head_dim);
    const Weight& weight = *tensor.matrix;
    const TensorType* type = wanted_ == nullptr ? &type_of(weight) : wanted_;
    if (!fits_type(*type, weight.k_in)) {
      kept_.push_back(gguf_name(tensor.name));
      type = &type_of(weight);
    }
    const uint64_t row_bytes = uint64_t{weight.k_in} / type->block_elements * type->block_bytes;
    const auto fill = [&weight, type, row_bytes, head_dim](uint64_t first, uint64_t rows,
                                                           std::byte* out) {
      for (uint64_t row = first; row < first + rows; ++row, out += row_bytes) {
        const uint64_t source = head_dim > 0 ? unpaired(row, head_dim) : row;
        store_row(weight, static_cast<uint32_t>(source), *type, out);
      }
    };
    planned_.push_back({gguf_name(tensor.name), type->id, {weight.n_out, weight.k_in}, fill});
  }

  void add_factors(const std::vector<float>& factors) {
    factors_ = factors;
    if (!factors_.empty()) add_vector({"rope_freqs.weight", nullptr, &factors_, 0}, 0);
  }

  const std::vector<GgufPlannedTensor>& planned() const { return planned_; }
  std::vector<std::string> take_kept() { return std::move(kept_); }

 private:
  void add_vector(const ModelTensor& tensor, uint64_t head_dim) {
    const std::vector<float>& values = *tensor.vector;
    const auto fill = [&values, head_dim](uint64_t, uint64_t, std::byte* out) {
      std::vector<float> ordered(values.size());
      for (uint64_t i = 0; i < values.size(); ++i) {
        ordered[i] = values[head_dim > 0 ? unpaired(i, head_dim) : i];
      }
      store_values(ordered.data(), ordered.size(), *find_tensor_type(kGgufF32), out);
    };
    planned_.push_back({gguf_name(tensor.name), kGgufF32, {values.size()}, fill});
  }

  const Model& model_;
  const TensorType* wanted_;
  std::vector<float> factors_;
  std::vector<GgufPlannedTensor> planned_;
  std::vector<std::string> kept_;
};

std::vector<float> stored_factors(const ModelConfig& config) {
  const bool llama3 = config.rope_scaling.kind == RopeScalingKind::llama3;
  return llama3 ? llama3_rope_factors(config) : config.rope_factors;
}

}  // namespace

Result<std::vector<std::string>> write_gguf_model(const Model& model, const std::string& path,
                                                  const GgufMetadata& tokenizer,
                                                  const ConvertOptions& options) {
  const TensorType& type =
      options.type != nullptr ? *options.type : type_of(model.layers.front().q);
  GgufMetadata metadata;
  TENON_RETURN_IF_ERROR(add_model(model, type, tokenizer, metadata));
  Planner planner(model, options.type);
  for (const ModelTensor& tensor : list_tensors(model)) planner.add(tensor);
  planner.add_factors(stored_factors(model.config));
  TENON_RETURN_IF_ERROR(write_gguf(path, metadata, planner.planned(), options.progress));
  return planner.take_kept();
}

}  // namespace tenon
