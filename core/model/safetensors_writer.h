// Writes a .safetensors file whose tensors are made while they are written, a piece at a time, on
// all cores: a file may be far larger than memory.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace tenon {

struct PlannedTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;  // [rows, columns], or [rows] with one column
  // Fills rows [first, first + rows) into `out`, in the tensor's dtype. Called by several threads
  // at once, each with rows of its own; must not throw.
  std::function<void(uint64_t first, uint64_t rows, std::byte* out)> fill;
};

// done and total in bytes; called by the caller's thread.
using WriteProgress = std::function<void(uint64_t done, uint64_t total)>;

// Writes beside `path` and puts the file in place when it is whole; an old one is replaced. Errors:
// failed (no room, no permission), and then nothing is left behind.
Status write_safetensors(const std::string& path, std::span<const PlannedTensor> tensors,
                         const WriteProgress& progress = {});

}  // namespace tenon
