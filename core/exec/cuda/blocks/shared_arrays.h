// What layers with a shared block need beside the arrays of a step.
#pragma once

#include <cstdint>

#include "core/exec/cuda/device/device_memory.h"
#include "core/exec/cuda/kernels/launches.h"
#include "core/model/plan/model_plan.h"

namespace tenon::cuda {

// For the largest of a model's layers; all null where none shares a block.
struct SharedArrays {
  static uint64_t bytes_for(const ModelPlan& plan, uint64_t rows, Input type);
  Status allocate(const ModelPlan& plan, uint64_t rows, Input type, DeviceMemory& memory);

  float* kept = nullptr;      // [rows, hidden] the stream, while the block uses its place
  float* beside = nullptr;    // [rows, 2, hidden] the stream and what entered the first layer
  float* low = nullptr;       // [rows, ranks of q, k and v side by side], or that of the MLP
  void* low_input = nullptr;  // [rows, one of them], an input of products
};

}  // namespace tenon::cuda
