// Several machines that answer one workload together: each a pipeline on the executor "sim" with a
// clock of its own, and a router in front of them.
//
// What happens is ordered by time, and at one time by the number of the machine, so a simulation is
// the same each time. A request is routed when it arrives, by what every machine has to do then.
#pragma once

#include <vector>

#include "core/compare/replay/replay.h"
#include "core/routing/router.h"

namespace tenon::compare {

// A machine that answers nothing for a while. What it had begun goes on at another one, which
// computes K and V of the prompt and of the tokens so far again; its own cache is lost. It fails
// between two steps.
struct MachineFailure {
  uint32_t machine = 0;  // 1 is the first
  int64_t at_ns = 0;     // after the start
  int64_t for_ns = 0;

  friend bool operator==(const MachineFailure&, const MachineFailure&) = default;
};

struct ClusterPlan {
  Routing routing = Routing::round_robin;
  // So many machines, the first ones, compute prompts and the first token alone; then K and V go
  // over the network to one of the others, the least loaded, which computes the rest. 0: each does
  // both.
  uint32_t prefill = 0;
  std::vector<MachineFailure> failures = {};
};

// Ends a replay before everything is answered, once so many requests have broken their bounds that
// the others cannot make up the share any more: nothing that is left to happen changes that
// verdict.
struct EarlyEnd {
  MeasuredPlan bounds = {};  // its slo_ttft_ms, slo_gap_ms and slo_share
  // What came of it.
  bool ended = false;
  uint32_t broken = 0;  // requests that are known to have broken them
  uint32_t all = 0;     // of so many

  double most_kept() const { return all == 0 ? 0 : static_cast<double>(all - broken) / all; }
};

// Error: invalid_argument, no machine for a role, or a failure of a machine that is not there.
Status check_plan(size_t machines, const ClusterPlan& plan);

// One piece of all machines: seconds until the last is done, sums of counters (but the most memory
// of any machine), every request once, and every machine's timeline. Errors: invalid_argument (a
// machine that is not simulated, a record of views, no machine for a role, no network between
// roles, a failure of a machine that is not there), unsupported (several samples of a request with
// roles or failures); what an engine reports, with the machine's number.
// With `early`, which is filled in, the piece may end early; then it has the requests that had
// arrived, those that were open as cancelled. Not with roles or failures, nor where requests are
// made of which nobody knows how many samples they have.
Result<MeasuredPiece> replay_cluster(const std::vector<Pipeline*>& machines,
                                     const ClusterPlan& plan, const ReplayWork& work,
                                     const ReplayOptions& options, EarlyEnd* early = nullptr);

}  // namespace tenon::compare
