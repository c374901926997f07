// An engine that answers a workload's requests, and what it measures meanwhile: one machine's part
// of a replay.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/compare/replay.h"
#include "core/compare/turns.h"
#include "core/engine/engine.h"
#include "core/pipeline/step_work.h"

namespace tenon::compare {

class ReplayRun {
 public:
  // Borrows all. `recorder`: in place of the pipeline's scheduler; null = that.
  ReplayRun(Pipeline& pipeline, const ReplayWork& work, const ReplayOptions& options,
            Scheduler* recorder = nullptr);

  // Keeps requests in the engine, all that have arrived or so many at once, until all are answered.
  // Again in the same engine, which knows what the cache holds.
  Status run(const TurnOrder& turns);

  // The same piece by piece, for whoever decides which requests come here (cluster.h).
  void begin(const TurnOrder& turns);
  // `arrival_ns`: by the pipeline's clock; negative: as the workload says, or now in a closed loop.
  Status submit(size_t index, int64_t arrival_ns = -1);
  // Whether every sample of a request that was submitted here has ended.
  bool answered(size_t index) const;
  bool idle() const { return engine_.idle(); }
  // When the engine can go on: now, or when its scheduler wants to be asked. Not of an idle one.
  int64_t next_ns() const;
  Status step() { return engine_.step(); }
  uint64_t samples_ended() const;  // since begin()
  int64_t start_ns() const { return start_ns_; }
  Status end();

  // Everything of the piece but what the comparison knows. `gaps` gets those between tokens, in
  // milliseconds; the piece has their quantiles too.
  Result<MeasuredPiece> piece(std::vector<double>& gaps) const;
  // What was answered, in the order in which requests came in: what a simulation of the same run
  // says (recorded_run.h).
  Status write_answers(const std::string& path) const;

 private:
  // How much K/V takes, states left out: of a token in all layers, and of all blocks together.
  struct KvMemory {
    double token_bytes = 0, block_tokens = 1, pool_bytes = 0;
  };
  static KvMemory memory_of(const Pipeline& pipeline);
  EngineParts parts_of(Pipeline& pipeline, Scheduler* recorder);
  EngineOptions engine_options(const Pipeline& pipeline, const ReplayOptions& options);
  bool is_due(size_t index) const;
  Status move_clock();
  Status submit_due();
  void add_steps(MeasuredPiece& out) const;
  void add_memory(const StepRecord& step, MeasuredPiece& out) const;
  void add_needs(const StepRecord& step, bool prefill, MeasuredPiece& out) const;
  Status add_rows(MeasuredPiece& out, std::vector<double>& gaps) const;
  RequestRow row_of(size_t index, size_t number, const ResultSink::Sample& sample,
                    std::vector<double>& gaps) const;
  void add_totals(MeasuredPiece& out) const;

  VirtualClock* virtual_;  // null: time goes by itself
  TurnClock clock_;
  Turns turns_;
  const ReplayWork& work_;
  const uint64_t salt_;
  const StepWork needed_;
  const KvMemory memory_;
  std::vector<StepRecord> steps_;
  Engine engine_;
  std::vector<size_t> order_;
  std::vector<std::shared_ptr<ResultSink>> sinks_;  // null: not submitted here
  size_t next_ = 0;
  uint64_t submitted_ = 0;  // samples
  EngineTotals before_;     // this run
  int64_t start_ns_ = 0, end_ns_ = 0;
};

}  // namespace tenon::compare
