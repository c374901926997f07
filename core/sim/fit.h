// A machine's figures from steps that were measured on it.
//
// The time of a step is a sum of what it needs, each times an unknown that is not negative: the
// inverse of a kernel's share of its roofline, or an overhead. So the unknowns are found by least
// squares under that condition (Lawson and Hanson 1974), on relative errors: a step of 100 µs
// counts as much as one of 100 ms.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/sim/machine.h"
#include "core/sim/step_needs.h"

namespace tenon::sim {

struct MeasuredStep {
  const StepModel* model = nullptr;  // outlives the fit
  std::vector<SequenceLoad> sequences = {};
  uint32_t logits_rows = 0;
  double seconds = 0;
  std::string name = {};  // for reports: "8 sequences of 512 tokens"
  bool held_out = false;  // not fitted to, only predicted
};

struct FittedStep {
  const MeasuredStep* step = nullptr;
  double seconds = 0;  // predicted
  double error() const { return seconds / step->seconds - 1; }
};

struct Fit {
  Machine machine;
  std::vector<FittedStep> steps;  // in the order they were given
  // The mean of |error| over those that were fitted to, and over those held out; 0 of none.
  double mean_error = 0, held_out_error = 0;
};

// `limits` has what the machine can do at most: bandwidth, the operations of each format that steps
// have, attention_operations. `rows` are the points of shares. Shares are made monotone: more rows
// never take less time. Errors: invalid_argument (fewer steps than unknowns that they tell of; a
// format without a rate).
Result<Fit> fit_machine(const Machine& limits, const std::vector<double>& rows,
                        const std::vector<MeasuredStep>& steps);

// min |A x - b| with x >= 0; `a` is row by row, `columns` wide.
std::vector<double> non_negative_least_squares(const std::vector<double>& a,
                                               const std::vector<double>& b, size_t columns);

}  // namespace tenon::sim
