// One row of K or V (a token, a head) in a cache's element type, as <tenon/attention.h> defines it.
// Plain loops: what the oracle uses, and what kernels are compared with.
#pragma once

#include <tenon/types.h>

#include <cstddef>
#include <span>

namespace tenon {

// `row` into kv_row_bytes(dtype, row.size()) bytes at `to`. dtype is f32, f16, bf16, i8 or i4.
void write_kv_row(DType dtype, std::span<const float> row, std::byte* to);
// The numbers that stand there; `row` has as many elements as the one that was written.
void read_kv_row(DType dtype, const std::byte* from, std::span<float> row);

}  // namespace tenon
