// One step as a value: what its phases hand on to each other.
//
// Words: a *plan* is what the scheduler decides for a step, a list of *grants*. A *growth* is the
// KV memory that the ledger took for a sequence on behalf of a plan. A *share* is one sequence's
// part of the step that is run: its rows, its logits, what was drawn from them.
#pragma once

#include <tenon/sampler.h>

#include <string>
#include <utility>
#include <vector>

#include "core/engine/records/metrics.h"
#include "core/engine/requests/sequence.h"
#include "core/engine/step/batch_builder.h"
#include "core/exec/executor.h"

namespace tenon {

// Whether a step is planned on what is, or on what the step in flight will leave.
enum class Planning : uint8_t { now = 0, ahead = 1 };

struct Step {
  explicit Step(BatchBuilder builder) : batch_builder(std::move(builder)) {}

  uint64_t id = 0;
  StepRecord record;
  std::vector<Share> shares;  // in batch order; samples that fork in this step behind them
  BatchBuilder batch_builder;
  BatchView batch;  // into the builder
  Status launched;  // why it was not, where it was not
  StepOutput output;
  EntryScores scores;  // of the output, which the next launch overwrites; where wanted
  // What was drawn: a row and a result for each new token, by Share.
  std::vector<SampleRow> rows;
  std::vector<SampleResult> results;
  // Of the rows whose sequences follow grammars, by Share: [rows, mask_words].
  std::vector<uint64_t> masks;
  uint64_t mask_words = 0;
  std::vector<std::pair<Sequence*, std::string>> mask_faults;
  std::vector<uint64_t> digests;  // [results] of the sample, up to and with each; where wanted

  void begin(uint64_t step_id, int64_t now_ns) {
    id = step_id;
    record = {};
    record.step_id = step_id;
    record.start_ns = now_ns;
    shares.clear();
    launched = {};
    output = {};
  }
  bool empty() const { return shares.empty(); }
};

}  // namespace tenon
