// What `tenon bench` measures, and the least time that the machine's limits allow for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/exec/cpu/machine_limits.h"
#include "core/pipeline/pipeline.h"

namespace tenon {

struct BenchPlan {
  uint32_t prompt_tokens = 512;
  uint32_t decode_tokens = 32;
  uint32_t batch = 1;
  // Every second step verifies this many tokens of each sequence (one certain, the others drafts);
  // 1 = none does.
  uint32_t verify_tokens = 1;
  // Of the sequences in turn; "none" = the base model. Empty: of all of them.
  std::vector<std::string> adapters;
};

// What one repetition measured.
struct BenchSample {
  double prefill_seconds = 0;
  double decode_seconds = 0;  // a step, median
  double decode_mean_seconds = 0;
  double verify_seconds = 0;  // a step that verifies, median; 0 without
  // Of the experts that rows chose: in that step of the prefill that used most, in a mean step of
  // decoding, in the last one that verifies.
  double prefill_expert_bytes = 0;
  double decode_expert_bytes = 0;
  double verify_expert_bytes = 0;
};

// Prefills a batch and decodes. Prompts repeat no pattern and differ by `variant`. Errors: what the
// engine or a plugin reports, and a pipeline that never computed the whole batch in one step.
Result<BenchSample> measure_steps(Pipeline& pipeline, const BenchPlan& plan, uint32_t variant);

// Multiplications and additions, by the machine limit that bounds them.
struct BenchOperations {
  double int8 = 0;  // matrices stored in blocks of 8 bits or less
  double bf16 = 0;
  double f32 = 0;  // all others

  double sum() const { return int8 + bf16 + f32; }
};

// One step or prefill: rows computed, of them sampled, tokens of K and V read, and bytes of the
// experts that rows chose.
struct BenchLoad {
  double rows = 0;
  double sampled_rows = 0;
  double kv_tokens = 0;
  double expert_bytes = 0;
};

// Operations and bytes that a pipeline's arithmetic needs at least.
struct BenchWork {
  BenchOperations row;            // of the layers, a row
  BenchOperations head;           // of the head, a row that is sampled
  double weight_bytes = 0;        // of all matrices but experts, as stored; read once a step
  double expert_bytes = 0;        // of all experts
  double expert_share = 0;        // of them that a row chooses
  double kv_bytes_per_token = 0;  // of one sequence
  double state_bytes = 0;         // of one sequence's recurrent layers; read and written each step

  double bytes_of(const BenchLoad& load) const;
};
BenchWork work_of(const Pipeline& pipeline);

double weight_bytes_of(const BenchWork& work, const BenchLoad& load);
// max(bytes of weights / bandwidth, operations / their measured rates) + bytes of KV and states /
// bandwidth.
double limit_seconds(const BenchWork& work, const BenchLoad& load, const MachineLimits& limits);
BenchOperations operations_of(const BenchWork& work, const BenchLoad& load);

}  // namespace tenon
