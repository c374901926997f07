// Writes GGUF files of version 3, as core/files/gguf.h reads them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/files/gguf_metadata.h"
#include "core/model/checkpoint/tensor_file.h"

namespace tenon {

struct GgufPlannedTensor {
  std::string name;
  uint32_t type = kGgufF32;  // a TensorType's id
  // Slowest first: [rows, columns], [matrices, rows, columns], or [length], which is one row.
  std::vector<uint64_t> extents;
  FillRows fill;  // in the tensor's type
};

// How a model is cut into parts (docs/formats/gguf.md). Both 0: it is one file.
struct GgufSplit {
  uint64_t max_bytes = 0;  // of a part's tensors; a larger tensor has a part of its own
  uint32_t tensors = 0;    // of a part at most
  bool wanted() const { return max_bytes > 0 || tensors > 0; }
};

// Data is aligned to 32 bytes. Returns the files: `path`, or the parts NAME-00001-of-0000N.gguf …
// of a `path` NAME.gguf. Errors as write_tensor_file; no part is then left. invalid_argument: more
// parts than their keys can count.
Result<std::vector<std::string>> write_gguf(const std::string& path, const GgufMetadata& metadata,
                                            std::span<const GgufPlannedTensor> tensors,
                                            const WriteProgress& progress = {},
                                            const GgufSplit& split = {});

}  // namespace tenon
