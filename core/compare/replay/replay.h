// One replay of a workload by the pipeline of an arm.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/compare/arms/turns.h"
#include "core/pipeline/pipeline.h"
#include "core/report/statistics/measured.h"
#include "core/workload/prompts.h"

namespace tenon::compare {

struct ReplayWork {
  std::vector<Request> requests;     // without sinks and arrivals
  std::vector<int64_t> arrivals_ns;  // after the start, one a request
  uint32_t in_flight = 0;            // closed loop: so many at once, arrivals do not count
  std::vector<std::string> notes;    // what of the prompts' grammars is ignored, each once
  // In place of `requests`, where there are too many to keep: makes the one of an index, the same
  // each time, when it arrives. May be empty.
  std::function<Result<Request>(size_t index)> make = {};
  uint64_t samples = 0;  // of all requests that are made; 0: not known

  size_t size() const { return arrivals_ns.size(); }
  Result<Request> request(size_t index) const {
    return make ? make(index) : Result<Request>(requests[index]);
  }
};
// A workload file's, or a file's of prompts. With a `vocabulary`, for arms that are servers: drawn
// prompts are ids below it, and what depends on whom one asks is said (temperature 0 where the
// file says none).
Result<std::vector<Prompt>> read_replay_prompts(const std::string& path, uint32_t max_tokens,
                                                uint32_t vocabulary);
// Whether the file can be read, as read_replay_prompts() or, where `lazily`, as a list of requests
// that are made when they arrive.
Status check_replay_work(const std::string& path, bool lazily);
// The same, encoded for this pipeline. Of a simulation a workload's requests are made when they
// arrive, which takes no time there.
Result<ReplayWork> read_replay_work(const Pipeline& pipeline, const std::string& path,
                                    uint32_t max_tokens, uint32_t vocabulary = 0);

struct ReplayOptions {
  bool digests = false;
  uint64_t salt = 0;  // requests of replays with other salts share no K/V
  bool warm = false;  // the same requests run once before, not measured
  // Whether times have what the thread that takes the steps, and workers that it sleeps for, wait
  // for a processor that other programs have.
  bool count_waits = true;
  std::string record = {};  // a file for what the scheduler sees and decides; empty = none
  TurnOrder turns = {};
};
// Everything of the piece but what the comparison knows: its kind, arm, block, and the machine.
// Errors: what the engine or a plugin reports; a request that failed.
Result<MeasuredPiece> replay(Pipeline& pipeline, const ReplayWork& work,
                             const ReplayOptions& options);

// The same, again and again in one engine, so that each replay finds in the cache what those before
// it left there. Borrows both; `options` are of all replays, but for their turns.
std::function<Result<MeasuredPiece>(const TurnOrder&)> keep_replaying(Pipeline& pipeline,
                                                                      const ReplayWork& work,
                                                                      const ReplayOptions& options);

}  // namespace tenon::compare
