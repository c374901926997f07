// What layers with experts need beside the arrays of a step.
#pragma once

#include <cstdint>

#include "core/exec/cuda/device/device_memory.h"
#include "core/exec/cuda/kernels/launches.h"
#include "core/model/plan/model_plan.h"

namespace tenon::cuda {

// For the largest of a model's layers; all null where none has experts.
struct ExpertArrays {
  static uint64_t bytes_for(const ModelPlan& plan, uint64_t rows, Input type);
  Status allocate(const ModelPlan& plan, uint64_t rows, Input type, DeviceMemory& memory);

  float *gate = nullptr, *up = nullptr;  // [places, width]; a place is a row's choice
  void* inner = nullptr;                 // [places, width], an input of products
  float* out = nullptr;                  // [places, hidden]
  float* factors = nullptr;              // [rows, chosen + 1]
  uint32_t* experts = nullptr;           // [rows, chosen]
  uint32_t* lists = nullptr;             // [experts, room]
  uint32_t* counts = nullptr;            // [experts]
  uint32_t room = 0;
};

}  // namespace tenon::cuda
