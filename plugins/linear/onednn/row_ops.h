// What is done to rows before and after oneDNN's products, once for each instruction set.
#pragma once

#include <tenon/linear.h>

#include <cstdint>

#include "plugins/linear/onednn/sizes.h"

namespace tenon::onednn {

// Sums of some rows and columns on their way to y; widths and strides in values.
struct FinishTask {
  const float* sums = nullptr;    // [rows, width]
  const float* second = nullptr;  // silu_mul: the same of the second matrix
  uint32_t rows = 0;
  uint32_t width = 0;    // whole panels
  uint32_t columns = 0;  // of them, those that y has
  float* y = nullptr;    // the first of them, of the row that y_rows counts from
  uint64_t y_stride = 0;
  const uint32_t* y_rows = nullptr;  // [rows], or null: in order
  const float* row_scale = nullptr;  // [rows] or null
  const float* bias = nullptr;       // [columns] or null
  Epilogue epilogue = Epilogue::store;
};

struct RowOps {
  // One row of x in a weight's format: `k_in` values, filled up with zeros to padded(k_in).
  void (*prepare)(const float* x, uint32_t k_in, Format format, void* to);
  void (*finish)(const FinishTask& task);
};
extern const RowOps kPortableRowOps;
extern const RowOps kAvx2RowOps;
extern const RowOps kAvx512RowOps;

}  // namespace tenon::onednn
