// Writes a file of tensors that are made while they are written, a piece at a time, on all cores: a
// file may be far larger than memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

// done and total in bytes; called by the caller's thread.
using WriteProgress = std::function<void(uint64_t done, uint64_t total)>;

// Fills rows [first, first + rows) into `out`. Called by several threads at once, each with rows of
// its own; must not throw.
using FillRows = std::function<void(uint64_t first, uint64_t rows, std::byte* out)>;

struct PlacedRows {
  uint64_t offset = 0;  // in the file
  uint64_t rows = 0;
  uint64_t row_bytes = 0;
  const FillRows* fill = nullptr;
};

// Writes `header` at the front and each tensor at its place; what lies between is zero. The file
// appears when it is whole. Errors: failed (no room, no permission), invalid_argument (the name is
// taken); then nothing is left behind.
Status write_tensor_file(const std::string& path, std::string_view header,
                         std::span<const PlacedRows> tensors, uint64_t file_bytes,
                         const WriteProgress& progress);

}  // namespace tenon
