// The numbers of parameters() that are members of SamplingParams.
#pragma once

#include <tenon/sampler.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/number.h"
#include "core/base/result.h"

namespace tenon {

struct SamplingKey {
  std::string_view name;  // "min_p", in parameters()
  double (*get)(const SamplingParams& params) = nullptr;
  void (*set)(SamplingParams& params, double value) = nullptr;
};

inline constexpr size_t kSamplingKeyCount = 25;
// In a fixed order; `seed` and `logprobs` are not among them.
const std::array<SamplingKey, kSamplingKeyCount>& sampling_keys();
// Its place in the table; null for an unknown name.
std::optional<size_t> find_sampling_key(std::string_view name);

// What someone chose, in the order of the table; what is absent stays as it was.
using SamplingValues = std::array<std::optional<double>, kSamplingKeyCount>;
void apply_values(const SamplingValues& values, SamplingParams& params);

// The value of a request as somebody may have written it; and what is wrong with it, as
// number_fault has it.
WrittenNumber sampling_value(const SamplingKey& key, const SamplingParams& params);
std::string sampling_text(const SamplingKey& key, const SamplingParams& params);
std::string sampling_fault(const SamplingKey& key, const SamplingParams& params);

// Stages by their names, separated by spaces or commas: SamplingParams::order. Error:
// invalid_argument, for a word that is no stage, an empty one, and where there are none.
Result<std::vector<SamplingStage>> parse_sampling_order(std::string_view words);

}  // namespace tenon
