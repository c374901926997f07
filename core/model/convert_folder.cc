#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/half.h"
#include "core/base/new_file.h"
#include "core/model/convert.h"
#include "core/model/gguf_config.h"
#include "core/model/model_family.h"
#include "core/model/model_folder_writer.h"
#include "core/model/model_tensors.h"
#include "core/model/safetensors_writer.h"

namespace tenon {
namespace {

std::optional<DType> plain_dtype(const TensorType& type) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (dtype_name(dtype) == type.name) return dtype;
  }
  return std::nullopt;
}

bool is_exact(const std::vector<float>& values, DType dtype) {
  return std::ranges::all_of(values, [dtype](float value) {
    if (dtype == DType::f32) return true;
    return value == (dtype == DType::f16 ? float_from_f16(f16_from_float(value))
                                         : float_from_bf16(bf16_from_float(value)));
  });
}

// config.json has no place for stored factors: only those of a scaling that it can name.
Status name_factors(ModelConfig& config) {
  if (config.rope_factors.empty()) return {};
  for (const double factor : {8.0, 32.0}) {
    ModelConfig guess = config;
    guess.rope_scaling = {RopeScalingKind::llama3, factor, 1.0, 4.0, 8192};
    const std::vector<float> expected = llama3_rope_factors(guess);
    const bool same = std::ranges::equal(config.rope_factors, expected, [](float a, float b) {
      return std::fabs(a - b) <= 1e-5f * b;
    });
    if (!same) continue;
    config.rope_factors.clear();
    config.rope_scaling = guess.rope_scaling;
    return {};
  }
  return unsupported(
      "tensor 'rope_freqs.weight' holds factors that no rope_scaling of config.json describes; "
      "known are those of Llama 3.1 and 3.2");
}

// config.json gives all biases of attention one key.
Status check_biases(const ModelConfig& config) {
  const ModelFamily& family = *find_model_family(config.architecture);
  const bool by_key = family.attention_bias == BiasRule::by_key;
  if (by_key && config.qkv_bias != config.output_bias) {
    return unsupported(
        "biases of q, k and v without one of the output, or the other way, have no "
        "key in config.json");
  }
  const bool never = family.attention_bias == BiasRule::never;
  if ((never && (config.qkv_bias || config.output_bias)) || (!by_key && config.output_bias) ||
      (config.mlp_bias && !family.mlp_bias_key)) {
    return unsupported("a " + config.architecture + " model with these biases has no config.json");
  }
  return {};
}

std::string generation_json(const GenerationDefaults& defaults) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (defaults.temperature) {
    out["do_sample"] = *defaults.temperature > 0.0f;
    if (*defaults.temperature > 0.0f) out["temperature"] = shortest_double(*defaults.temperature);
  }
  if (defaults.top_k) out["top_k"] = *defaults.top_k;
  if (defaults.top_p) out["top_p"] = shortest_double(*defaults.top_p);
  if (!defaults.eos.empty()) out["eos_token_id"] = defaults.eos;
  return out.empty() ? std::string() : out.dump(1) + "\n";
}

PlannedTensor plan_matrix(const ModelTensor& tensor, const TensorType* wanted) {
  const Weight& weight = *tensor.matrix;
  const TensorType* type = wanted != nullptr ? wanted : &type_of(weight);
  if (!plain_dtype(*type)) type = find_tensor_type(kGgufF32);
  const auto fill = [&weight, type](uint64_t first, uint64_t rows, std::byte* out) {
    for (uint64_t row = first; row < first + rows; ++row) {
      store_row(weight, static_cast<uint32_t>(row), *type, out);
      out += uint64_t{weight.k_in} * type->block_bytes;
    }
  };
  return {tensor.name, *plain_dtype(*type), {weight.n_out, weight.k_in}, fill};
}

PlannedTensor plan_vector(const ModelTensor& tensor, DType dtype) {
  const std::vector<float>& values = *tensor.vector;
  const TensorType* type = find_tensor_type(dtype_name(dtype));
  const auto fill = [&values, type](uint64_t first, uint64_t rows, std::byte* out) {
    store_values(values.data() + first, rows, *type, out);
  };
  return {tensor.name, dtype, {values.size()}, fill};
}

std::vector<PlannedTensor> plan(const Model& model, const TensorType* wanted) {
  const std::vector<ModelTensor> tensors = list_tensors(model);
  const DType matrix_type = plan_matrix(tensors.front(), wanted).dtype;
  const bool exact = std::ranges::all_of(tensors, [&](const ModelTensor& tensor) {
    return tensor.vector == nullptr || is_exact(*tensor.vector, matrix_type);
  });
  std::vector<PlannedTensor> planned;
  for (const ModelTensor& tensor : tensors) {
    planned.push_back(tensor.matrix != nullptr
                          ? plan_matrix(tensor, wanted)
                          : plan_vector(tensor, exact ? matrix_type : DType::f32));
  }
  return planned;
}

}  // namespace

Status write_folder_model(const Model& model, const std::string& folder,
                          const ConvertOptions& options) {
  if (options.type != nullptr && !plain_dtype(*options.type)) {
    return unsupported("weights of type " + std::string(options.type->name) +
                       " have no place in a safetensors folder; there are f32, f16 and bf16");
  }
  ModelConfig config = model.config;
  TENON_RETURN_IF_ERROR(name_factors(config));
  TENON_RETURN_IF_ERROR(check_biases(config));
  TENON_RETURN_IF_ERROR(create_model_folder(folder));
  const std::vector<PlannedTensor> planned = plan(model, options.type);
  TENON_RETURN_IF_ERROR(
      write_safetensors(folder + "/model.safetensors", planned, options.progress));
  if (const std::string generation = generation_json(model.generation); !generation.empty()) {
    TENON_RETURN_IF_ERROR(write_file(folder + "/generation_config.json", {generation}));
  }
  return write_file(folder + "/config.json", {model_config_json(config, planned.front().dtype)},
                    Existing::refuse);
}

}  // namespace tenon
