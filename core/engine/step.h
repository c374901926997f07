// One step as a value: what its phases hand on to each other.
//
// Words: a *plan* is what the scheduler decides for a step, a list of *grants*. A *growth* is the
// KV memory that the ledger took for a sequence on behalf of a plan. A *share* is one sequence's
// part of the step that is run: its rows, its logits, what was drawn from them.
#pragma once

#include <tenon/batch.h>
#include <tenon/kv_cache.h>
#include <tenon/sampler.h>

#include <vector>

#include "core/engine/metrics.h"
#include "core/engine/sequence_table.h"
#include "core/exec/executor.h"

namespace tenon {

struct Share {
  Sequence* sequence = nullptr;
  // A sample that forks in this step computes nothing: it draws from its parent's row.
  Sequence* parent = nullptr;
  uint32_t base = 0;          // `computed` when its rows began
  uint32_t tokens = 0;        // known tokens computed
  uint32_t drafts = 0;        // draft tokens behind them
  uint32_t first_row = 0;     // in the batch
  uint32_t first_logits = 0;  // in the output
  uint32_t logits_rows = 0;   // 0 = not sampled
  uint32_t first_score = 0;   // rows of the prompt that are scored, before the sampled ones
  uint32_t score_rows = 0;
  const float* draft_probs = nullptr;  // [drafts, vocabulary] that they were drawn from, if known
  uint32_t first_result = 0;           // in the step's rows and results: one for each new token
  uint32_t result_count = 0;
  uint32_t accepted = 0;  // drafts
};

struct Step {
  uint64_t id = 0;
  StepRecord record;
  std::vector<Share> shares;  // in batch order; samples that fork in this step behind them
  BatchView batch;
  StepOutput output;
  // What was drawn: a row and a result for each row of logits that is sampled, by Share.
  std::vector<SampleRow> rows;
  std::vector<SampleResult> results;

  void begin(uint64_t step_id, int64_t now_ns) {
    id = step_id;
    record = {};
    record.step_id = step_id;
    record.start_ns = now_ns;
    shares.clear();
  }
  bool empty() const { return shares.empty(); }
};

// For messages to everyone in a step.
inline std::vector<Sequence*> sequences_of(const std::vector<Share>& shares) {
  std::vector<Sequence*> sequences;
  for (const Share& share : shares) sequences.push_back(share.sequence);
  return sequences;
}
inline std::vector<Sequence*> sequences_of(const std::vector<Share*>& shares) {
  std::vector<Sequence*> sequences;
  for (const Share* share : shares) sequences.push_back(share->sequence);
  return sequences;
}

}  // namespace tenon
