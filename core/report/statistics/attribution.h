// Where a difference comes from: time by part and phase, and the counters that explain it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/report/statistics/measured.h"

namespace tenon {

struct PartDifference {
  std::string part = {};                     // "executor"
  std::string phase = {};                    // "prefill", "decode"
  double base_seconds = 0, arm_seconds = 0;  // a piece

  double difference() const { return arm_seconds - base_seconds; }
};
// Largest difference first.
std::vector<PartDifference> differences_of(std::span<const MeasuredPiece* const> base,
                                           std::span<const MeasuredPiece* const> arm);

// One sentence for each part whose difference is at least 2 % of the base's time and certain over
// the pairs (base[i], arm[i]), at most five. A reason is given only where a counter says so.
std::vector<std::string> why_they_differ(std::span<const MeasuredPiece* const> base,
                                         std::span<const MeasuredPiece* const> arm,
                                         const MeasuredArm& base_arm, const MeasuredArm& other);
// A sentence for scheduler, KV cache, sampler and drafter where the arm has another than the base
// and the time in its own calls differs for certain, though by less than why_they_differ() tells:
// its share of the base's piece with an interval of 99 %. Whole pieces need far more pairs to tell
// as much.
std::vector<std::string> own_costs(std::span<const MeasuredPiece* const> base,
                                   std::span<const MeasuredPiece* const> arm,
                                   const MeasuredArm& base_arm, const MeasuredArm& other);
// For a difference that is certain while no part's is: the part whose mean differs most, as what it
// is. Empty where no part differs by 2 % of the base's time.
std::string likely_reason(std::span<const MeasuredPiece* const> base,
                          std::span<const MeasuredPiece* const> arm, const MeasuredArm& base_arm,
                          const MeasuredArm& other);

}  // namespace tenon
