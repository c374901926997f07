// Matrices of blocks that stay packed on the device: which ones the kernels of 8 and 4 bits can
// read (launches.h, QuantCall), and their rows in the order of those kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/exec/cuda/kernels/launches.h"
#include "core/model/model.h"

namespace tenon::cuda {

struct PackedLayout {
  int bits = 0;  // 8 or 4; 0: the matrix is widened
  int group = 0;
  bool zeros = false;   // else each is 0 (8 bits) or 8 (4 bits)
  bool floats = false;  // QuantScales

  explicit operator bool() const { return bits > 0; }
  // Of a row.
  uint64_t code_bytes(uint32_t k_in) const {
    return static_cast<uint64_t>(quant_stride(k_in, bits));
  }
  uint64_t groups(uint32_t k_in) const { return k_in / static_cast<uint32_t>(group); }
  uint64_t scale_bytes() const { return static_cast<uint64_t>(quant_scale_bytes(floats)); }
};

// Q8_0, Q4_0, E4M3, and u8 and u4 with whole zero points, columns in their order. Weights of one
// matrix, one below the other, have one layout. They are readable by rows.
PackedLayout packed_layout(std::span<const Weight* const> weights);
PackedLayout packed_layout(const Weight& weight);
// Whether it is widened because zero points of its blocks are fractions.
bool has_fractional_zeros(const Weight& weight);

struct PackedRow {
  uint8_t* codes;     // [code_bytes], of which those of no element are left as they are
  std::byte* scales;  // [groups] of the layout's scale_bytes
  uint8_t* zeros;     // [groups], where the layout has them
};
void pack_row(const Weight& weight, const PackedLayout& layout, uint32_t row, const PackedRow& to);

}  // namespace tenon::cuda
