// What a step's arithmetic needs at least, for reports that say how near a pipeline comes to the
// limits of its machine.
#pragma once

namespace tenon {

struct Pipeline;

// Multiplications and additions, by the machine limit that bounds them.
struct StepOperations {
  double int8 = 0;  // matrices stored in blocks of 8 bits or less
  double bf16 = 0;
  double f32 = 0;  // all others

  double sum() const { return int8 + bf16 + f32; }
};

// One step or prefill: rows computed, of them sampled, tokens of K and V read, and bytes of the
// experts that rows chose.
struct StepLoad {
  double rows = 0;
  double sampled_rows = 0;
  double kv_tokens = 0;
  double expert_bytes = 0;
};

// Operations and bytes that a pipeline's arithmetic needs at least.
struct StepWork {
  StepOperations row;             // of the layers, a row
  StepOperations head;            // of the head, a row that is sampled
  double weight_bytes = 0;        // of all matrices but experts, as stored; read once a step
  double expert_bytes = 0;        // of all experts
  double expert_share = 0;        // of them that a row chooses
  double kv_bytes_per_token = 0;  // of one sequence
  double state_bytes = 0;         // of one sequence's recurrent layers; read and written each step

  double bytes_of(const StepLoad& load) const;
};
StepWork work_of(const Pipeline& pipeline);

double weight_bytes_of(const StepWork& work, const StepLoad& load);
StepOperations operations_of(const StepWork& work, const StepLoad& load);

}  // namespace tenon
