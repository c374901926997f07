// Several machines that answer one workload together: each a pipeline on the executor "sim" with a
// clock of its own, and a router in front of them.
//
// What happens is ordered by time, and at one time by the number of the machine, so a simulation is
// the same each time. A request is routed when it arrives, by what every machine has to do then.
#pragma once

#include <vector>

#include "core/compare/replay.h"
#include "core/routing/router.h"

namespace tenon::compare {

// One piece of all machines: seconds until the last is done, sums of counters (but the most memory
// of any machine), every request once. Errors: invalid_argument (a machine that is not simulated, a
// record of views); what an engine reports, with the machine's number.
Result<MeasuredPiece> replay_cluster(const std::vector<Pipeline*>& machines, Routing routing,
                                     const ReplayWork& work, const ReplayOptions& options);

}  // namespace tenon::compare
