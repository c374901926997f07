// Rows of matrices as a checkpoint stores them, widened to f32.
#pragma once

#include <tenon/types.h>

#include <cstdint>

#include "core/base/result.h"
#include "core/model/model.h"

namespace tenon {

// Null status when `read_row` can read the weight: one part of element type f32, f16 or bf16 with
// the shape [n_out, k_in], in any strides and alignment; or one of blocks, u8 [n_out, bytes a row]
// (core/model/formats/quant_format.h).
Status readable_by_rows(const Weight& weight);
// Writes row `row` to out [k_in].
void read_row(const Weight& weight, uint32_t row, float* out);

}  // namespace tenon
