// Which part of the machine's limit the pieces of a comparison reached.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/report/statistics/measured.h"

namespace tenon {

// What arithmetic needs at least, and what a machine gives a second.
struct MachineNeeds {
  double weight_bytes = 0, kv_bytes = 0;
  double int8_operations = 0, bf16_operations = 0, f32_operations = 0;
};
struct MachineRates {
  double read_bytes = 0;
  double f32 = 0, bf16 = 0, int8 = 0;  // operations; bf16 and int8 are 0 where there are none
};
// The least time: max(weights / bandwidth, operations / the rate of their kind, or f32's where that
// is higher) + K and V / bandwidth.
double least_seconds(const MachineNeeds& needs, const MachineRates& rates);

// Of all pieces together, a phase ("prefill", "decode"). The limit is the least time that reading
// the weights once a step, computing the rows and reading K and V can take with the rates that were
// measured around each piece; it is a bound from below, since weights and operations are added up
// over the steps before the larger of the two is taken.
struct PhaseUse {
  double weight_bytes = 0, kv_bytes = 0, operations = 0;  // a piece
  double seconds = 0;                                     // of the executor, a piece
  double limit_seconds = 0;                               // a piece; 0 = not known

  // Above 1 where weights stay in the caches.
  double fraction() const { return seconds > 0 ? limit_seconds / seconds : 0; }
};
PhaseUse use_of(std::span<const MeasuredPiece* const> pieces, std::string_view phase);

// "decode needs 2.10 GB of weights, 0.31 GB of K and V and 0.05 TOP a piece: 0.71 of the limit; a:
// 0.62" for each phase that took at least a hundredth of the pieces. Nothing of folders without
// these counters. Where it is `simulated`, no other program is to blame for anything.
std::vector<std::string> machine_use(std::span<const MeasuredPiece* const> base,
                                     std::span<const MeasuredPiece* const> arm,
                                     const std::string& base_name, bool simulated = false);

}  // namespace tenon
