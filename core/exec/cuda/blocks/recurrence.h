// What layers with a recurrence need besides the arrays of a step, and a step's sequences in a
// group of states, as kernels read them.
#pragma once

#include <tenon/batch.h>
#include <tenon/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/exec/cuda/device/device_memory.h"
#include "core/exec/cuda/kernels/launch_recurrence.h"
#include "core/exec/cuda/kernels/launches.h"
#include "core/model/plan/model_plan.h"

namespace tenon::cuda {

// For the largest of a model's layers; all null where none has a recurrence.
struct RecurrentArrays {
  static uint64_t bytes_for(const ModelPlan& plan, uint64_t rows, Input type);
  Status allocate(const ModelPlan& plan, uint64_t rows, Input type, DeviceMemory& memory);

  // [rows, x, gate, Δ and β side by side]; later y in the place of x. Of short_conv B, C and x.
  float* entering = nullptr;
  float* convolved = nullptr;  // [rows, channels]
  void* inner = nullptr;       // [rows, inner], an input of products
  // Of Mamba's layers.
  float* low_bc = nullptr;    // [rows, step_rank and 2·state side by side]
  void* low_input = nullptr;  // [rows, step_rank], an input of products
  float* steps = nullptr;     // [rows, channels]
};

// Numbers of a row of RecurrentArrays::entering.
uint32_t entering_width(const RecurrentPlan& plan);

// What of a recurrence the device does not run, as in "layer 3 has …"; empty: it runs it.
std::string refused_recurrence(const RecurrentPlan& plan);

struct StatePlanArrays {
  std::vector<StateSequence> sequences;
  std::vector<uint32_t> row_sequence;  // [rows]
  std::vector<int32_t> to;             // [rows]
};
// The batch has passed check_batch.
StatePlanArrays plan_states(const BatchView& batch, GroupId id);

}  // namespace tenon::cuda
