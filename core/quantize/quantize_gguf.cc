#include "core/quantize/quantize_gguf.h"

#include <algorithm>
#include <utility>

#include "core/base/quote.h"
#include "core/quantize/blocks/blocks.h"
#include "core/quantize/layer_inputs.h"
#include "core/quantize/methods/method.h"
#include "core/quantize/units.h"

namespace tenon::quantize {
namespace {

constexpr double kShareOfText = 0.7;  // of the time, where there is a calibration text

// For rows that fill no block of 256.
std::string_view smaller_format(std::string_view format) {
  constexpr std::pair<std::string_view, std::string_view> kSmaller[] = {
      {"q2_k", "iq4_nl"}, {"q3_k", "iq4_nl"}, {"iq4_xs", "iq4_nl"},
      {"q4_k", "q5_0"},   {"q5_k", "q5_1"},   {"q6_k", "q8_0"}};
  for (const auto& [large, small] : kSmaller) {
    if (format == large) return small;
  }
  return format;
}

bool has_plain_format(const Weight& weight) {
  return weight.format == "f32" || weight.format == "f16" || weight.format == "bf16";
}

Status check_plain(const Model& model) {
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) {
      if (has_plain_format(*weight)) continue;
      return unsupported(
          "tensor " + in_quotes(weight->name) + " is quantised already (" + weight->format +
          "); rounding twice loses twice – quantise the model that it was made from");
    }
  }
  return {};
}

Status check_format(const std::string& format) {
  if (find_block_encoder(format) != nullptr) return {};
  if (method_named(format).ok()) {
    return unsupported(format +
                       " is a method for folders; expected an OUT that does not end in "
                       ".gguf, or one of " +
                       block_format_names());
  }
  return unsupported("the method " + in_quotes(format, kMostValueBytes) +
                     " is not known; a GGUF file is written with " + block_format_names());
}

}  // namespace

Result<Importance> measure_importance(const Model& model, std::vector<std::vector<TokenId>> windows,
                                      WorkerPool& pool,
                                      const std::function<void(double)>& progress) {
  Importance out;
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<LayerInputs> inputs,
                         LayerInputs::start(model, std::move(windows), pool));
  const auto layers = static_cast<uint32_t>(model.layers.size());
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const LayerWeights& weights = model.layers[layer];
    const InputSites sites = input_sites(model.plan, layer, weights);
    LayerValues values;
    for (const auto& [key, site] : sites.of) values[key] = {};
    for (const Weight* weight : weights.matrices()) {
      const auto wanted = values.find(key_of(*weight));
      if (wanted == values.end()) continue;
      TENON_ASSIGN_OR_RETURN(wanted->second, values_of(*weight, pool));
    }
    TENON_ASSIGN_OR_RETURN(const std::vector<InputStatistics> found,
                           inputs->observe(sites, LayerInputs::kAllStages, values, false));
    for (const auto& [key, site] : sites.of) {
      if (found[site].rows > 0) out[key] = found[site].squares;
    }
    if (layer + 1 < layers) TENON_RETURN_IF_ERROR(inputs->advance(values));
    if (progress) progress(static_cast<double>(layer + 1) / layers);
  }
  return out;
}

const TensorType* type_in_file(std::string_view format, const ModelPlan& plan, Role role,
                               uint64_t k) {
  const auto fits = [k](std::string_view name) {
    const TensorType* type = find_tensor_type(name);
    return type != nullptr && k % type->block_elements == 0 ? type : nullptr;
  };
  const bool head = role == Role::head || (role == Role::embedding && plan.tied_embeddings);
  if (head && format != "q8_0") {
    const TensorType* fine = fits("q6_k");
    return fine != nullptr ? fine : fits("q8_0");
  }
  if (role == Role::positions) return nullptr;
  const TensorType* type = fits(format);
  return type != nullptr ? type : fits(smaller_format(format));
}

Result<GgufQuantizeReport> quantize_gguf(const Model& model, const GgufMetadata& tokenizer,
                                         const GgufQuantizeRequest& request) {
  TENON_RETURN_IF_ERROR(check_format(request.format));
  TENON_RETURN_IF_ERROR(check_plain(model));
  Importance importance;
  const double text_share = request.windows.empty() ? 0 : kShareOfText;
  const auto progress = [&request](double share) {
    if (request.progress) request.progress(share);
  };
  if (!request.windows.empty()) {
    TENON_ASSIGN_OR_RETURN(const auto pool, WorkerPool::start({.threads = 0, .pin = false}));
    TENON_ASSIGN_OR_RETURN(importance,
                           measure_importance(model, request.windows, *pool,
                                              [&](double share) { progress(share * text_share); }));
  }
  GgufQuantizeReport report;
  ConvertOptions options;
  options.type = find_tensor_type(std::string_view(request.format));
  options.ends = request.ends;
  options.progress = [&](uint64_t done, uint64_t total) {
    progress(text_share +
             (1 - text_share) * static_cast<double>(done) / static_cast<double>(total));
  };
  options.choose = [&](const TensorSpec& spec, const Weight& weight) -> RowEncoding {
    const TensorType* type = type_in_file(request.format, model.plan, spec.role, weight.k_in);
    if (type == nullptr) return {};
    const uint64_t rows = spec.rows * std::max(1u, spec.experts);
    ++report.matrices;
    report.matrix_values += rows * weight.k_in;
    report.matrix_bytes += rows * (weight.k_in / type->block_elements * type->block_bytes);
    const auto found = importance.find(key_of(weight));
    const std::span<const float> columns = found == importance.end()
                                               ? std::span<const float>()
                                               : std::span<const float>(found->second);
    const uint64_t k = weight.k_in;
    return {type, [type, columns, k](const float* values, std::byte* out) {
              encode_row(type->name, {values, k}, columns, out);
            }};
  };
  const auto written = write_gguf_model(model, request.out, tokenizer, options);
  if (!written.ok()) return copy(written.status());
  return report;
}

}  // namespace tenon::quantize
