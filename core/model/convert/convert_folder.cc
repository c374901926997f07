#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/files/new_file.h"
#include "core/base/half.h"
#include "core/model/checkpoint/gguf_config.h"
#include "core/model/config/json_fields.h"
#include "core/model/config/model_config.h"
#include "core/model/convert/convert.h"
#include "core/model/convert/convert_check.h"
#include "core/model/convert/interleaved_experts.h"
#include "core/model/convert/model_folder_writer.h"
#include "core/model/convert/safetensors_writer.h"
#include "core/model/families/family.h"
#include "core/model/plan/plan_difference.h"
#include "core/model/tensors/model_tensors.h"

namespace tenon {
namespace {

std::optional<DType> plain_dtype(const TensorType& type) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (dtype_name(dtype) == type.name) return dtype;
  }
  return std::nullopt;
}

// The x whose -exp(x), rounded once, is `decay`, where there is one; else the nearest.
float log_of_decay(float decay) {
  const auto log = static_cast<float>(std::log(-double{decay}));
  const auto reads_back = [&](float x) {
    return static_cast<float>(-std::exp(double{x})) == decay;
  };
  for (const float near : {log, std::nextafter(log, -1e30f), std::nextafter(log, 1e30f)}) {
    if (reads_back(near)) return near;
  }
  return log;
}

// A vector as folders store it.
std::vector<float> folder_values(const ModelTensor& tensor) {
  std::vector<float> values;
  for (const ConstTensorPlace& place : tensor.places) {
    for (uint64_t row = place.first; row < place.first + place.rows; ++row) {
      const float value = (*place.vector)[row] * tensor.input_scale;
      values.push_back(value - (tensor.plus_one ? 1.0f : 0.0f));
    }
  }
  if (tensor.spec.tensor->log_in_folders)
    std::ranges::transform(values, values.begin(), log_of_decay);
  return values;
}

bool is_exact(const std::vector<float>& values, DType dtype) {
  return std::ranges::all_of(values, [dtype](float value) {
    if (dtype == DType::f32) return true;
    return value == (dtype == DType::f16 ? float_from_f16(f16_from_float(value))
                                         : float_from_bf16(bf16_from_float(value)));
  });
}

using nlohmann::ordered_json;

// config.json has no place for stored factors: only those of a scaling that it can name.
Status name_factors(const ModelPlan& plan, ordered_json& config) {
  if (plan.ropes.empty() || plan.ropes.front().factors.empty()) return {};
  const RopePlan& rope = plan.ropes.front();
  for (const double factor : {8.0, 32.0}) {
    RopePlan guess = rope;
    guess.scaling = {.kind = RopeScalingKind::llama3,
                     .factor = factor,
                     .original_context_tokens = 8192,
                     .short_factors = {},
                     .long_factors = {}};
    const std::vector<float> expected = llama3_rope_factors(guess);
    const bool same = std::ranges::equal(
        rope.factors, expected, [](float a, float b) { return std::fabs(a - b) <= 1e-5f * b; });
    if (!same) continue;
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", factor},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 8192}};
    return {};
  }
  return unsupported(
      "tensor 'rope_freqs.weight' holds factors that no rope_scaling of config.json describes; "
      "known are those of Llama 3.1 and 3.2");
}

// A config.json knows fewer combinations of biases and windows than a GGUF file.
Status check_layers(const ModelPlan& plan, const ModelPlan& read) {
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan &ours = plan.layers[i], &theirs = read.layers[i];
    if (ours.attention.qkv_bias != theirs.attention.qkv_bias ||
        ours.attention.output_bias != theirs.attention.output_bias ||
        ours.mlp.bias != theirs.mlp.bias) {
      return unsupported("a " + plan.architecture + " model with these biases has no config.json");
    }
    if (ours.attention.window_tokens != theirs.attention.window_tokens) {
      return unsupported("a " + plan.architecture + " model with these windows has no config.json");
    }
  }
  return {};
}

// What the folder says of the model, checked by reading it again.
Result<std::string> folder_config(const Model& model) {
  ordered_json config = in_order(model.config_json);
  TENON_RETURN_IF_ERROR(name_factors(model.plan, config));
  config["tie_word_embeddings"] = model.plan.tied_embeddings;
  config.erase("quantization_config");  // what is written is plain
  const std::string text = config.dump();
  TENON_ASSIGN_OR_RETURN(ModelPlan read, parse_model_config(text, model.path));
  TENON_RETURN_IF_ERROR(check_layers(model.plan, read));
  const std::vector<RopePlan>& ropes = model.plan.ropes;
  if (!ropes.empty() && !ropes.front().factors.empty()) read.ropes = ropes;  // named above
  const std::string difference = plan_difference(model.plan, read);
  if (difference.empty()) return text;
  return unsupported("this " + model.plan.architecture +
                     " model cannot be said in a config.json: " + difference);
}

const TensorType* folder_type(const Weight& weight, const TensorType* wanted) {
  const TensorType* type = wanted != nullptr ? wanted : &type_of(weight);
  return plain_dtype(*type) ? type : find_tensor_type(kGgufF32);
}

PlannedTensor plan_matrix(const ModelTensor& tensor, const TensorType* wanted) {
  const Weight& weight = *tensor.places.front().matrix;
  const TensorType* type = folder_type(weight, wanted);
  const auto fill = [places = tensor.places, type](uint64_t first, uint64_t rows, std::byte* out) {
    store_rows(places, first, rows, *type, out);
  };
  return {tensor.spec.name, *plain_dtype(*type), {tensor.spec.rows, tensor.spec.columns}, fill};
}

PlannedTensor plan_vector(const ModelTensor& tensor, DType dtype) {
  const TensorType* type = find_tensor_type(dtype_name(dtype));
  const uint64_t columns = tensor.spec.shape.empty() ? 1 : tensor.spec.rows / tensor.spec.shape[0];
  const auto fill = [values = folder_values(tensor), columns, type](uint64_t first, uint64_t rows,
                                                                    std::byte* out) {
    store_values(values.data() + first * columns, rows * columns, *type, out);
  };
  if (!tensor.spec.shape.empty()) return {tensor.spec.name, dtype, tensor.spec.shape, fill};
  if (tensor.spec.tensor->scalar) return {tensor.spec.name, dtype, {}, fill};
  return {tensor.spec.name, dtype, {tensor.spec.rows}, fill};
}

// A tensor of experts becomes one for each, where folders of the family have them apart.
std::vector<ModelTensor> folder_tensors(const Model& model) {
  std::vector<ModelTensor> tensors = model_tensors(model);
  if (family_of(model.plan).tensors.experts != ExpertLayout::apart) return tensors;
  std::vector<ModelTensor> apart;
  for (ModelTensor& tensor : tensors) {
    for (uint32_t expert = 0; expert < tensor.spec.experts; ++expert) {
      ModelTensor& one = apart.emplace_back(tensor);
      one.spec.name = expert_name(tensor.spec.name, expert);
      one.spec.experts = 0;
      one.places = {tensor.places[expert]};
    }
    if (tensor.spec.experts == 0) apart.push_back(std::move(tensor));
  }
  return apart;
}

// Of each expert the rows of gate, then those of up; or those of down.
PlannedTensor plan_stacked(const ModelTensor& tensor, const ModelTensor* up,
                           const FamilyTensors& family, const TensorType& type) {
  const TensorSpec& spec = tensor.spec;
  std::vector<ConstTensorPlace> places;
  for (size_t expert = 0; expert < spec.experts; ++expert) {
    places.push_back(tensor.places[expert]);
    if (up != nullptr) places.push_back(up->places[expert]);
  }
  const auto fill = [places = std::move(places), &type](uint64_t first, uint64_t rows,
                                                        std::byte* out) {
    store_rows(places, first, rows, type, out);
  };
  const uint64_t rows = (up != nullptr ? 2 : 1) * spec.rows;
  const std::string_view name = up != nullptr ? family.stacked_in : family.stacked_out;
  return {
      stacked_name(spec.name, name), *plain_dtype(type), {spec.experts, rows, spec.columns}, fill};
}

// One matrix of all experts.
PlannedTensor plan_each(const ModelTensor& tensor, const TensorType& type) {
  const TensorSpec& spec = tensor.spec;
  const auto fill = [places = tensor.places, &type](uint64_t first, uint64_t rows, std::byte* out) {
    store_rows(places, first, rows, type, out);
  };
  return {spec.name, *plain_dtype(type), {spec.experts, spec.rows, spec.columns}, fill};
}

// Gate and up of all experts in one tensor, or down; null: up, which stands beside its gate.
std::optional<PlannedTensor> plan_experts(const std::vector<ModelTensor>& tensors,
                                          const ModelTensor& tensor, const FamilyTensors& family,
                                          const TensorType* wanted, DType vector_type) {
  const TensorSpec& spec = tensor.spec;
  const bool by_matrix = family.experts == ExpertLayout::by_matrix;
  if (spec.role == Role::expert_up && !by_matrix) return std::nullopt;
  const auto up = std::ranges::find_if(tensors, [&](const ModelTensor& other) {
    return other.spec.role == Role::expert_up && other.spec.layer == spec.layer &&
           other.spec.bias == spec.bias;
  });
  const TensorType* type = spec.columns == 0 ? find_tensor_type(dtype_name(vector_type))
                                             : folder_type(*tensor.places.front().matrix, wanted);
  const ModelTensor* beside = spec.role == Role::expert_gate ? &*up : nullptr;
  if (by_matrix) return plan_each(tensor, *type);
  if (family.experts == ExpertLayout::stacked) return plan_stacked(tensor, beside, family, *type);
  return plan_interleaved(tensor, beside, family.experts == ExpertLayout::interleaved, *type,
                          *plain_dtype(*type));
}

std::vector<PlannedTensor> plan(const Model& model, const TensorType* wanted) {
  const std::vector<ModelTensor> tensors = folder_tensors(model);
  const DType matrix_type = plan_matrix(tensors.front(), wanted).dtype;
  const auto is_vector = [](const ModelTensor& tensor) { return tensor.spec.columns == 0; };
  const bool exact = std::ranges::all_of(tensors, [&](const ModelTensor& tensor) {
    return !is_vector(tensor) || is_exact(folder_values(tensor), matrix_type);
  });
  std::vector<PlannedTensor> planned;
  for (const ModelTensor& tensor : tensors) {
    const DType vector_type = exact ? matrix_type : DType::f32;
    if (tensor.spec.experts > 0) {
      auto experts =
          plan_experts(tensors, tensor, family_of(model.plan).tensors, wanted, vector_type);
      if (experts) planned.push_back(*std::move(experts));
      continue;
    }
    planned.push_back(is_vector(tensor) ? plan_vector(tensor, vector_type)
                                        : plan_matrix(tensor, wanted));
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
  const SelfAttentionPlan& attention = model.plan.layers.front().attention;
  const bool norms_by_head =
      attention.qk_norm && attention.qk_norm_extent == QkNormExtent::own_head;
  if (family_of(model.plan).tensors.layout != FolderLayout::plain || norms_by_head) {
    return unsupported("writing folders of " + model.plan.architecture +
                       " models, which store tensors in another order, is not built");
  }
  if (options.type != nullptr) TENON_RETURN_IF_ERROR(check_range(model, *options.type));
  TENON_ASSIGN_OR_RETURN(const std::string config, folder_config(model));
  TENON_RETURN_IF_ERROR(create_model_folder(folder));
  const std::vector<PlannedTensor> planned = plan(model, options.type);
  TENON_RETURN_IF_ERROR(
      write_safetensors(folder + "/model.safetensors", planned, options.progress));
  const std::string generation = generation_config_text(model.generation, model.generation_json);
  if (!generation.empty()) {
    TENON_RETURN_IF_ERROR(write_file(folder + "/generation_config.json", {generation}));
  }
  return write_file(folder + "/config.json", {config_text(config, planned.front().dtype)},
                    Existing::refuse);
}

}  // namespace tenon
