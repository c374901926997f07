// An engine that answers a workload's requests, and what it measures meanwhile: one machine's part
// of a replay.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/compare/arms/turns.h"
#include "core/compare/replay/replay.h"
#include "core/compare/replay/replay_sink.h"
#include "core/engine/engine.h"
#include "core/pipeline/step_work.h"
#include "core/report/statistics/quantile_sketch.h"

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
  Status submit(size_t index, Request request, int64_t arrival_ns);
  // Requests that were submitted here and have not ended, and tokens of their prompts and, at most,
  // answers.
  // In place of rows of its own: whoever else is told of each request that ended, and of what was
  // answered of it, in the middle of a step.
  void hand_over(std::function<void(size_t index, const ReplaySink& sink)> take) {
    take_ = std::move(take);
  }
  // From here on requests are counted that break `bounds` for certain, as soon as that is known:
  // one that ended with a longer gap or a later first token, and one that is open, has no token and
  // has waited for longer. Before begin().
  void watch(const MeasuredPlan& bounds) { watched_ = bounds; }
  uint32_t broken() const { return broken_; }
  // Ends every open request as cancelled, and forgets what the cache holds. Where requests are
  // handed over or watched.
  Status lose_all();
  // Of K and V of a sequence of so many tokens, states included.
  double kv_bytes_of(size_t tokens) const {
    return memory_.token_bytes * static_cast<double>(tokens) + memory_.state_bytes;
  }
  uint32_t open_requests() const { return open_requests_; }
  uint64_t open_tokens() const { return open_tokens_; }
  bool idle() const { return engine_.idle(); }
  // When the engine can go on: now, or when its scheduler wants to be asked. Not of an idle one.
  int64_t next_ns() const;
  Status step();
  uint64_t samples_ended() const;  // since begin()
  int64_t start_ns() const { return start_ns_; }
  Status end();

  // Everything of the piece but what the comparison knows. Once after a run, whose requests it
  // takes with it.
  Result<MeasuredPiece> piece();
  // Of the latest run: between tokens, in milliseconds.
  const QuantileSketch& gaps() const { return gaps_; }
  // What was answered, in the order in which requests came in: what a simulation of the same run
  // says (recorded_run.h).
  Status write_answers(const std::string& path) const;

 private:
  // How much K/V takes, states left out: of a token in all layers, and of all blocks together.
  struct KvMemory {
    double token_bytes = 0, block_tokens = 1, pool_bytes = 0;
    double state_bytes = 0;  // of a sequence
  };
  static KvMemory memory_of(const Pipeline& pipeline);
  EngineParts parts_of(Pipeline& pipeline, Scheduler* recorder);
  EngineOptions engine_options(const Pipeline& pipeline, const ReplayOptions& options);
  void put_in_order();
  bool is_due(size_t index) const;
  Status move_clock();
  Status submit_due();
  void take_step(const StepRecord& step);
  void take_memory(const StepRecord& step);
  void take_needs(const StepRecord& step, bool prefill);
  // Rows of a request's samples; its tokens are not needed any more.
  void take_rows(size_t index, const ReplaySink& sink);
  bool may_lose() const { return take_ || watched_; }
  void count_late();
  RequestRow row_of(size_t index, size_t number, const ReplaySink::Sample& sample);
  void add_steps(MeasuredPiece& out) const;
  void add_totals(MeasuredPiece& out) const;

  // What steps had together.
  struct Phase {
    PartSeconds parts{};
    double steps = 0, rows = 0, weight_bytes = 0, kv_bytes = 0;
    StepOperations operations = {};
  };
  struct Steps {
    Phase prefill, decode;
    double peak_used_tokens = 0, peak_blocks = 0, peak_bytes = 0;
    std::vector<TimelinePoint> timeline = {};
    uint64_t count = 0, stride = 1;  // every so many steps have a point
  };

  VirtualClock* virtual_;  // null: time goes by itself
  TurnClock clock_;
  Turns turns_;
  Executor& executor_;
  const ReplayWork& work_;
  uint64_t salt_;
  std::function<void(size_t, const ReplaySink&)> take_;
  std::map<size_t, RequestId> open_;  // where they may be lost
  // Where bounds are watched.
  struct Awaited {
    size_t index = 0;
    int64_t arrival_ns = 0;
  };
  std::optional<MeasuredPlan> watched_;
  std::deque<Awaited> awaited_;  // in order of arrival, those that may yet be late
  std::set<size_t> late_;        // open, and counted already
  uint32_t broken_ = 0;
  const bool counts_waits_;
  const bool keeps_answers_;  // for write_answers
  const StepWork needed_;
  const KvMemory memory_;
  Steps steps_;
  Engine engine_;
  std::vector<size_t> order_;  // of arrivals, where nobody else decides what comes
  std::map<size_t, std::shared_ptr<ReplaySink>> sinks_;  // of requests that are not done with
  std::vector<RequestRow> rows_;
  QuantileSketch gaps_;
  std::string fault_;  // of the first request that failed
  size_t next_ = 0;
  uint32_t open_requests_ = 0;
  uint64_t open_tokens_ = 0;
  uint64_t submitted_ = 0;  // samples
  EngineTotals before_;     // this run
  int64_t start_ns_ = 0, end_ns_ = 0;
  int64_t left_out_before_ns_ = 0;
};

}  // namespace tenon::compare
