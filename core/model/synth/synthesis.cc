#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/base/files/new_file.h"
#include "core/base/half.h"
#include "core/model/convert/model_folder_writer.h"
#include "core/model/synth/folder_tensors.h"
#include "core/model/synth/synth.h"
#include "core/model/tensors/tensor_roles.h"

namespace tenon {
namespace {

// Values are sums of four uniform bytes, close to a normal distribution and one of 1021 levels, so
// that a table turns the sum into bytes of any dtype.
constexpr size_t kLevels = 4 * 255 + 1;
constexpr double kMeanLevel = 510.0;
const double kLevelDeviation = std::sqrt(4.0 * (256.0 * 256.0 - 1.0) / 12.0);

// An integer hash (the finaliser of MurmurHash3, public domain), the same for each (key, counter).
inline uint32_t mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

inline uint32_t level_of(uint32_t bits) {
  // Adds neighbouring bytes, then both halves.
  const uint32_t pairs = (bits & 0x00ff00ffu) + ((bits >> 8) & 0x00ff00ffu);
  return (pairs & 0xffffu) + (pairs >> 16);
}

template <typename T>
void fill_random(const std::array<T, kLevels>& levels, uint64_t key, uint64_t first, uint64_t count,
                 std::byte* out) {
  for (uint64_t done = 0; done < count;) {
    // The upper half of the counter changes every 2^32 elements.
    const uint64_t index = first + done;
    const uint32_t high = mix(static_cast<uint32_t>(key) ^ static_cast<uint32_t>(index >> 32));
    const uint32_t salt = mix(high ^ static_cast<uint32_t>(key >> 32));
    const uint64_t run = std::min(count - done, (uint64_t{1} << 32) - (index & 0xffffffffu));
    const auto low = static_cast<uint32_t>(index);
    for (uint64_t i = 0; i < run; ++i) {
      const uint32_t bits = mix((low + static_cast<uint32_t>(i)) * 0x9e3779b9u ^ salt);
      const T value = levels[level_of(bits)];
      std::memcpy(out + (done + i) * sizeof(T), &value, sizeof(T));
    }
    done += run;
  }
}

template <typename T, typename Convert>
auto random_filler(double mean, double deviation, uint64_t key, uint64_t columns, Convert convert) {
  std::array<T, kLevels> levels;
  for (size_t i = 0; i < kLevels; ++i) {
    const double normal = (static_cast<double>(i) - kMeanLevel) / kLevelDeviation;
    levels[i] = convert(static_cast<float>(mean + deviation * normal));
  }
  return [levels, key, columns](uint64_t first, uint64_t rows, std::byte* out) {
    fill_random(levels, key, first * columns, rows * columns, out);
  };
}

std::function<void(uint64_t, uint64_t, std::byte*)> filler(DType dtype, double mean,
                                                           double deviation, uint64_t key,
                                                           uint64_t columns) {
  if (dtype == DType::bf16) {
    return random_filler<uint16_t>(mean, deviation, key, columns, bf16_from_float);
  }
  if (dtype == DType::f16) {
    return random_filler<uint16_t>(mean, deviation, key, columns, f16_from_float);
  }
  return random_filler<float>(mean, deviation, key, columns, [](float value) { return value; });
}

const Draw& draw_of(const TensorSpec& spec) {
  return spec.bias ? spec.tensor->bias_draw : spec.tensor->draw;
}

// Deviations that keep the residual stream near 1 through all layers, and logits near 2.
double deviation_of(const TensorSpec& spec, const ModelPlan& plan) {
  if (norm_of(plan, spec) != nullptr) return 0.1;
  if (draw_of(spec).deviation > 0.0) return draw_of(spec).deviation;
  if (spec.bias) return 0.05;
  if (spec.columns == 0) return 0.5;  // sinks, corrections of a choice
  if (spec.rows_axis == Axis::vocabulary) return 2.0 / std::sqrt(plan.hidden);
  const double layers = static_cast<double>(plan.layers.size());
  const double share = spec.adds_back() ? 1.0 / std::sqrt(2.0 * layers) : 1.0;
  return share / std::sqrt(static_cast<double>(spec.columns));
}

double mean_of(const TensorSpec& spec, const ModelPlan& plan) {
  if (draw_of(spec).deviation > 0.0) return draw_of(spec).mean;
  const NormPlan* norm = norm_of(plan, spec);
  return norm == nullptr || spec.bias || norm->plus_one ? 0.0 : 1.0;
}

std::vector<PlannedTensor> plan_tensors(const ModelPlan& plan, const SynthesisOptions& options) {
  const std::vector<TensorSpec> specs = list_tensors(plan);
  std::vector<PlannedTensor> tensors;
  uint64_t key = options.seed * 0x9e3779b97f4a7c15u;
  for (FolderTensor& one : folder_tensors(plan, specs)) {
    key += 0xd1b54a32d192ed03u;
    const uint64_t columns = one.shape.size() > 1 ? one.shape.back() : 1;
    tensors.push_back({std::move(one.name), options.dtype, std::move(one.shape),
                       filler(options.dtype, mean_of(*one.spec, plan),
                              deviation_of(*one.spec, plan), key, columns)});
  }
  return tensors;
}

}  // namespace

Status synthesize_model(std::string_view shape, const SynthesisOptions& options) {
  TENON_ASSIGN_OR_RETURN(const PlannedShape planned, named_shape(shape, options.layers));
  TENON_RETURN_IF_ERROR(check_float_type(options.dtype));
  TENON_ASSIGN_OR_RETURN(NewFolder folder,
                         NewFolder::create(options.out_folder, model_folder_files()));
  TENON_RETURN_IF_ERROR(create_model_folder(options.out_folder));
  if (!options.tokenizer_from.empty()) {
    TENON_RETURN_IF_ERROR(copy_tokenizer(options.tokenizer_from, options.out_folder));
  }
  TENON_RETURN_IF_ERROR(write_safetensors(options.out_folder + "/model.safetensors",
                                          plan_tensors(planned.plan, options), options.progress));
  TENON_RETURN_IF_ERROR(write_file(options.out_folder + "/config.json",
                                   {config_text(planned.json, options.dtype)}, Existing::refuse));
  folder.keep();
  return {};
}

}  // namespace tenon
