// What the engine measures: a record a step, a record a sample, and totals.
//
// Times are those of the engine's clock, so they are virtual in a simulation.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/clock.h"

namespace tenon {

using RequestId = uint64_t;  // 1, 2, … in the order of submission

// Time spent inside each part, and in the engine between them.
struct PartTimes {
  int64_t scheduler_ns = 0;
  int64_t kv_cache_ns = 0;
  int64_t drafter_ns = 0;
  int64_t executor_ns = 0;  // moves, launch, collect
  int64_t sampler_ns = 0;
  int64_t engine_ns = 0;

  PartTimes& operator+=(const PartTimes& other);
  int64_t total_ns() const;
};

struct StepRecord {
  uint64_t step_id = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t sequences = 0;    // computed in this step
  uint32_t rows = 0;         // token positions computed, drafts included
  uint32_t logits_rows = 0;  // of them, sampled from
  uint32_t draft_rows = 0;
  uint32_t accepted_drafts = 0;
  uint32_t tokens = 0;  // generated
  uint32_t moves = 0;
  uint32_t preemptions = 0;
  uint32_t reused_tokens = 0;  // found in the cache instead of computed
  uint32_t swapped_out_tokens = 0;
  uint32_t swapped_in_tokens = 0;
  uint32_t running = 0;  // sequences that hold KV memory, computed or not
  uint32_t waiting = 0;
  // Rows of finished sequences that the scheduler keeps reserved.
  uint32_t idle_rows = 0;
  // Just before the step ran, its own rows counted as used.
  uint64_t kv_reserved_tokens = 0;
  uint64_t kv_used_tokens = 0;
  uint64_t expert_bytes = 0;  // of weights: those experts that the step's rows chose
  PartTimes times;
};

// One sample of a request, from arrival to end.
struct RequestRecord {
  RequestId request = 0;
  uint32_t sample = 0;
  uint32_t prompt_tokens = 0;
  uint32_t generated_tokens = 0;
  uint32_t reused_tokens = 0;  // prompt tokens found in the cache when first admitted
  uint32_t preemptions = 0;
  uint32_t drafted_tokens = 0;
  uint32_t accepted_tokens = 0;
  int64_t arrival_ns = 0;
  int64_t deadline_ns = 0;   // wanted done by then; 0 = none was named
  int64_t admitted_ns = -1;  // first granted; -1 = never
  int64_t end_ns = 0;
  std::vector<int64_t> token_ns;  // when each generated token was delivered
  // Chained over the raw bits of every row of logits that a delivered token was drawn from; 0 where
  // the engine computes no digests. docs/formats/digest.md
  uint64_t logits_digest = 0;

  int64_t time_to_first_token_ns() const;   // -1 when there is none
  double time_per_output_token_ns() const;  // mean gap after the first; 0 for one token or none
};

// What became of drafts. A draft is what one sequence was given in one step.
struct DraftStatistics {
  uint64_t drafts = 0;
  uint64_t tokens = 0;
  uint64_t accepted = 0;
  uint64_t cut = 0;  // offers and drafts of which something could not be used
  // How often the token in this place of a draft was kept; as long as the longest draft.
  std::vector<uint64_t> accepted_at;

  void add(uint32_t draft_tokens, uint32_t accepted_tokens);
  double acceptance() const;  // share of the tokens that were kept; 0 without any
};

struct EngineTotals {
  uint64_t steps = 0;  // that computed something
  uint64_t requests = 0;
  uint64_t samples_ended = 0;
  uint64_t prompt_tokens = 0;     // of ended samples
  uint64_t generated_tokens = 0;  // of all samples so far
  uint64_t rows_computed = 0;
  // One row-step is one sequence slot held for one step: Σ over steps of running sequences plus
  // idle rows. What request-level batching wastes shows here.
  uint64_t row_steps = 0;
  uint64_t idle_row_steps = 0;
  uint64_t preemptions = 0;
  uint64_t reused_tokens = 0;  // found in the cache instead of computed, again after preemption
  uint64_t swapped_out_tokens = 0;  // K/V moved to the swap pool
  uint64_t swapped_in_tokens = 0;   // and back
  DraftStatistics drafts;
  uint64_t kv_moves = 0;
  // Σ over steps.
  uint64_t kv_reserved_token_steps = 0;
  uint64_t kv_used_token_steps = 0;
  uint64_t plan_faults = 0;     // plans that failed or broke a promise
  uint64_t forward_faults = 0;  // steps whose forward pass failed
  PartTimes times;

  void add(const StepRecord& step);
  // Share of the reserved KV memory that held nothing, averaged over steps by size.
  double kv_unused_fraction() const;
  double mean_kv_reserved_tokens() const;
  double mean_kv_used_tokens() const;
};

// Adds the clock's time between construction and destruction to a counter.
class Stopwatch {
 public:
  Stopwatch(const Clock& clock, int64_t& counter_ns)
      : clock_(clock), counter_ns_(counter_ns), start_ns_(clock.now_ns()) {}
  ~Stopwatch() { counter_ns_ += clock_.now_ns() - start_ns_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const Clock& clock_;
  int64_t& counter_ns_;
  int64_t start_ns_;
};

}  // namespace tenon
