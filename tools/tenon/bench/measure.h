// What `tenon bench` measures, and the least time that the machine's limits allow for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/exec/cpu/limits/machine_limits.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/step_work.h"

namespace tenon {

struct BenchPlan {
  uint32_t prompt_tokens = 512;
  uint32_t decode_tokens = 32;
  uint32_t batch = 1;
  // Every second step verifies this many tokens of each sequence (one certain, the others drafts);
  // 1 = none does.
  uint32_t verify_tokens = 1;
  // How likely each of these drafts is to be kept, 0 to 1, if those before it are. Without: none is
  // made to be.
  std::optional<double> acceptance;
  // Of the sequences in turn; "none" = the base model. Empty: of all of them.
  std::vector<std::string> adapters;
};

// What one repetition measured.
struct BenchSample {
  double prefill_seconds = 0;
  double decode_seconds = 0;  // a step, median
  double decode_mean_seconds = 0;
  double verify_seconds = 0;  // a step that verifies, median; 0 without
  // With an acceptance: tokens of a sequence in a mean step that verifies, and how many times the
  // tokens a second of steps that do not verify those that do make, each counted to the next one.
  double tokens_a_step = 0;
  double speedup = 0;
  // Of the experts that rows chose: in that step of the prefill that used most, in a mean step of
  // decoding, in the last one that verifies.
  double prefill_expert_bytes = 0;
  double decode_expert_bytes = 0;
  double verify_expert_bytes = 0;
};

// Prefills a batch and decodes. Prompts repeat no pattern and differ by `variant`. Errors: what the
// engine or a plugin reports, and a pipeline that never computed the whole batch in one step.
Result<BenchSample> measure_steps(Pipeline& pipeline, const BenchPlan& plan, uint32_t variant);

// max(bytes of weights / bandwidth, operations / their measured rates) + bytes of KV and states /
// bandwidth.
double limit_seconds(const StepWork& work, const StepLoad& load, const MachineLimits& limits);

}  // namespace tenon
