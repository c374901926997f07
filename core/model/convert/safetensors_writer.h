// Writes a .safetensors file whose tensors are made while they are written, a piece at a time, on
// all cores: a file may be far larger than memory.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/model/checkpoint/tensor_file.h"

namespace tenon {

struct PlannedTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;  // […, columns], or [rows] with one column; empty = a scalar
  FillRows fill;                // in the tensor's dtype
};

// As write_tensor_file.
Status write_safetensors(const std::string& path, std::span<const PlannedTensor> tensors,
                         const WriteProgress& progress = {});

}  // namespace tenon
