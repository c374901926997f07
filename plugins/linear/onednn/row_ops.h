// What is done to rows before and after oneDNN's products, once for each instruction set.
#pragma once

#include <tenon/linear.h>

#include <cstdint>

namespace tenon::onednn {

// One row of x: `k_in` values, filled up with zeros to padded(k_in). Null: not this form.
struct RowForms {
  float* f32 = nullptr;
  uint16_t* bf16 = nullptr;
};

// Sums of some rows and columns on their way to y; widths and strides in values.
struct FinishTask {
  const float* sums = nullptr;    // [rows, width]
  const float* second = nullptr;  // silu_mul: the same of the second matrix
  uint32_t rows = 0;
  uint32_t width = 0;    // whole panels
  uint32_t columns = 0;  // of them, those that y has
  float* y = nullptr;    // the first of them
  uint64_t y_stride = 0;
  const float* bias = nullptr;  // likewise, or null
  Epilogue epilogue = Epilogue::store;
};

struct RowOps {
  void (*prepare)(const float* x, uint32_t k_in, RowForms forms);
  void (*finish)(const FinishTask& task);
};
extern const RowOps kPortableRowOps;
extern const RowOps kAvx2RowOps;
extern const RowOps kAvx512RowOps;

}  // namespace tenon::onednn
