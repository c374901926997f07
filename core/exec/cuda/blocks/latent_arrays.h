// What layers with latent attention need beside the arrays of a step.
#pragma once

#include <cstdint>

#include "core/exec/cuda/device/device_memory.h"
#include "core/exec/cuda/kernels/launches.h"
#include "core/model/plan/model_plan.h"

namespace tenon::cuda {

// For the largest of a model's layers; all null where none has latent attention.
struct LatentArrays {
  static uint64_t bytes_for(const ModelPlan& plan, uint64_t rows, Input type);
  Status allocate(const ModelPlan& plan, uint64_t rows, Input type, DeviceMemory& memory);

  float* expanded = nullptr;  // [rows, heads, q_dim], and [rows, heads, v_dim]
  void* heads_in = nullptr;   // [rows, heads, nope_dim], an input of products
  float* low = nullptr;       // [rows, q_rank]
  void* low_input = nullptr;  // the same, normed, an input of products
};

}  // namespace tenon::cuda
