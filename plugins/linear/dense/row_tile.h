// One row of x times P panels of a quantised format, weights widened in registers.
//
// The same products and sums as those of tile.h over weights widened in memory, so the same bits; a
// single row leaves registers for scales and biases, and its time is that of widening.
#pragma once

#include "plugins/linear/dense/kernels.h"
#include "plugins/linear/dense/quant_weights.h"

namespace tenon::dense {
namespace {

// Four sums hide the latency of an FMA behind the widening of the next weights.
inline constexpr uint32_t kRowPanels = 2;

// Four values of k of one vector of columns.
template <class F, bool whole>
[[gnu::always_inline]] inline F32 add_step(sdk::StepBytes bytes, F32 scale, F32 bias,
                                           const float* x, F32 sum) {
  sum = simd::fma(simd::fma(level_of_byte<F, 0, whole>(bytes), scale, bias), simd::set1(x[0]), sum);
  sum = simd::fma(simd::fma(level_of_byte<F, 1, whole>(bytes), scale, bias), simd::set1(x[1]), sum);
  sum = simd::fma(simd::fma(level_of_byte<F, 2, whole>(bytes), scale, bias), simd::set1(x[2]), sum);
  return simd::fma(simd::fma(level_of_byte<F, 3, whole>(bytes), scale, bias), simd::set1(x[3]),
                   sum);
}

using RowSums = F32[kRowPanels][kPanelVectors];

// One group. x: its 32 values.
template <class W, bool whole>
[[gnu::always_inline]] inline void add_group(const typename W::Group (&from)[kRowPanels],
                                             const float* x, RowSums& sum) {
  constexpr uint32_t kScales = W::Steps::kScales;
#pragma GCC unroll 2
  for (uint32_t which = 0; which < kScales; ++which) {
    F32 scale[kRowPanels][kPanelVectors], bias[kRowPanels][kPanelVectors];
#pragma GCC unroll 2
    for (uint32_t p = 0; p < kRowPanels; ++p) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        scale[p][v] = from[p].template scale<whole>(v, which);
        bias[p][v] = from[p].bias(v, which, scale[p][v]);
      }
    }
#pragma GCC unroll 8
    for (uint32_t s = which * 8 / kScales; s < (which + 1) * 8 / kScales; ++s) {
#pragma GCC unroll 2
      for (uint32_t p = 0; p < kRowPanels; ++p) {
#pragma GCC unroll 2
        for (uint32_t v = 0; v < kPanelVectors; ++v) {
          sum[p][v] = add_step<typename W::Block, whole>(from[p].step(v, s), scale[p][v],
                                                         bias[p][v], x + 4 * s, sum[p][v]);
        }
      }
    }
  }
}
// Apart, so that nothing of it is computed beforehand.
template <class W>
[[gnu::noinline, gnu::cold]] void add_group_apart(const typename W::Group (&from)[kRowPanels],
                                                  const float* x, RowSums& sum) {
  add_group<W, true>(from, x, sum);
}

// task: as for multiply_expanded, of kRowPanels panels.
template <class W>
[[gnu::noinline]] void row_tile(const TileTask& task) {
  RowSums sum;
#pragma GCC unroll 2
  for (uint32_t p = 0; p < kRowPanels; ++p) {
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kPanelVectors; ++v) {
      const float* from = task.sums + p * task.sums_stride + v * simd::kLanes;
      sum[p][v] = task.resume ? simd::load(from) : simd::zero();
    }
  }
  const auto* x = static_cast<const float*>(task.x);
  const uint32_t groups = task.steps * W::kStep / sdk::kQuantGroupValues;
  for (uint32_t g = 0; g < groups; ++g, x += sdk::kQuantGroupValues) {
    const typename W::Group from[kRowPanels] = {
        {task.panel, g, task.block_groups}, {task.panel + task.panel_bytes, g, task.block_groups}};
    if constexpr (W::Block::kShape.float8) {
      if (W::needs_whole_levels(from[0].scale_bits() | from[1].scale_bits())) {
        RowSums passed;
        __builtin_memcpy(&passed, &sum, sizeof(sum));
        add_group_apart<W>(from, x, passed);
        __builtin_memcpy(&sum, &passed, sizeof(sum));
        continue;
      }
    }
    add_group<W, false>(from, x, sum);
  }
#pragma GCC unroll 2
  for (uint32_t p = 0; p < kRowPanels; ++p) {
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kPanelVectors; ++v) {
      simd::store(task.sums + p * task.sums_stride + v * simd::kLanes, sum[p][v]);
    }
  }
}

}  // namespace
}  // namespace tenon::dense
