// The numbers of SamplingParams by name: one table for the checks at submission, the command line,
// pipeline files, workloads and prompt files.
#pragma once

#include <tenon/sampler.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon {

struct SamplingKey {
  std::string_view name;  // "min_p"
  bool whole = false;     // a whole number
  double min = 0.0;
  double max = 0.0;
  bool above_min = false;  // `min` itself is out of range
  bool below_max = false;  // `max` likewise
  std::string_view sentence;
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

// A value as it is shown: whole numbers without a point.
std::string sampling_text(const SamplingKey& key, double value);
// "min_p is 2 – it must be a number from 0 to 1"; empty when `value` is in range.
std::string sampling_fault(const SamplingKey& key, double value);

// Stages by their names, separated by spaces or commas: SamplingParams::order. Error:
// invalid_argument, for a word that is no stage or stands there twice.
Result<std::vector<SamplingStage>> parse_sampling_order(std::string_view words);

}  // namespace tenon
