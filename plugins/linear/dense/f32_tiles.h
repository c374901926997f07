// The tiles of f32, once for each instruction set.
#pragma once

#include "plugins/linear/dense/tile.h"

namespace tenon::dense::TENON_SIMD_SET {

TileFunction f32_tile(uint32_t rows, bool alone) {
  constexpr auto kRows = std::make_integer_sequence<uint32_t, kTileRows>();
  return alone ? pick_tile<F32Weights, true>(rows, kRows)
               : pick_tile<F32Weights, false>(rows, kRows);
}

}  // namespace tenon::dense::TENON_SIMD_SET
