// One replay of a workload by the pipeline of an arm.
#pragma once

#include <string>
#include <vector>

#include "core/pipeline/pipeline.h"
#include "core/report/measured.h"

namespace tenon {

struct ReplayWork {
  std::vector<Request> requests;     // without sinks and arrivals
  std::vector<int64_t> arrivals_ns;  // after the start, one a request
  uint32_t in_flight = 0;            // closed loop: so many at once, arrivals do not count
};
// The requests of a workload file or of a file of prompts, encoded for this pipeline.
Result<ReplayWork> read_replay_work(const Pipeline& pipeline, const std::string& path,
                                    uint32_t max_tokens);

struct ReplayOptions {
  bool digests = false;
  uint64_t salt = 0;  // requests of replays with other salts share no K/V
  bool warm = false;  // the same requests run once before, not measured
};
// Everything of the piece but what the comparison knows: its kind, arm, block, and the machine.
// Errors: what the engine or a plugin reports; a request that failed.
Result<MeasuredPiece> replay(Pipeline& pipeline, const ReplayWork& work,
                             const ReplayOptions& options);

}  // namespace tenon
