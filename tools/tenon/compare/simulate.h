// From a comparison to one of simulations.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/compare/comparison.h"
#include "tools/tenon/compare/host.h"
#include "tools/tenon/compare/runs.h"

namespace tenon {

// Makes every arm one that runs on the executor "sim". The machine is the flags', else the file's;
// an arm may have one of its own (set = ["executor.machine=h200"]). Errors: no machine; an arm that
// is a server or another program, of which nothing can be simulated; those of sim::read_machine.
Status simulate_arms(const CompareFlags& flags, compare::Comparison& comparison);
// The machines of all arms, each with whether it was calibrated.
Result<SimulatedMachine> simulated_machine_of(const compare::Comparison& comparison);

}  // namespace tenon
