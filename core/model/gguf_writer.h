// Writes GGUF files of version 3, as core/base/gguf.h reads them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/gguf_metadata.h"
#include "core/model/tensor_file.h"

namespace tenon {

struct GgufPlannedTensor {
  std::string name;
  uint32_t type = kGgufF32;       // a TensorType's id
  std::vector<uint64_t> extents;  // slowest first: [rows, columns], or [length], which is one row;
                                  // of experts [experts, rows, columns]
  FillRows fill;                  // in the tensor's type
};

// Data is aligned to 32 bytes. Errors as write_tensor_file.
Status write_gguf(const std::string& path, const GgufMetadata& metadata,
                  std::span<const GgufPlannedTensor> tensors, const WriteProgress& progress = {});

}  // namespace tenon
