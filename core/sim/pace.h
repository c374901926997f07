// How fast a machine is now, beside what its file says: other guests of a host, heat and other
// programs change that by tens of percent from one hour to the next.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/result.h"
#include "core/sim/fit.h"
#include "core/sim/machine.h"

namespace tenon::sim {

// Times that steps take, as multiples of what the file says; geometric means.
struct Pace {
  double mean = 1;     // of all kinds of steps
  double rows = 1;     // of those with a row a sequence, which read
  double prompts = 1;  // of those with more, which compute
  double least = 1, most = 1;
  uint32_t steps = 0;
};

// Errors: invalid_argument (no steps; the machine has no rate for a format of theirs).
Result<Pace> pace_of(const Machine& machine, std::span<const MeasuredStep> steps);

// The machine where every step takes so many times as long. `source` says so. What joins it to
// others stays as it is.
Machine at_pace(Machine machine, double pace);

}  // namespace tenon::sim
