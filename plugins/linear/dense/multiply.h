// x · Wᵀ over a range of panels, block of k by block of k: a block of weights stays in the first
// cache for all rows, and while it is multiplied the next one is asked for, spread evenly over the
// tiles. Few rows walk panels one after the other, so memory is read from front to back; many rows
// take several panels a block, so that their part of x is read once for all of them.
#pragma once

#include <tenon/sdk/linear/epilogue.h>

#include "plugins/linear/dense/kernels.h"
#include "plugins/linear/dense/quant_weights.h"
#include "plugins/linear/dense/row_tile.h"
#include "plugins/linear/dense/tile.h"

namespace tenon::dense {
namespace {

// Rows of one pass over the weights: 132 rows x 256 values of x are 140 KiB of the second cache.
inline constexpr uint32_t kChunkRows = kTileRows * 11;
// Panels of one pass over x; their sums, 16 x 132 rows x 128 bytes = 264 KiB, stay there as well.
inline constexpr uint32_t kPassPanels = 16;
// From here on a pass takes that many panels; below, x is small.
inline constexpr uint32_t kManyRows = 65;
// From here on narrow weights are widened once a block instead of once a tile.
template <class W>
inline constexpr uint32_t kWidenRows = kTileRows*(W::kScaleSteps > 0 ? 1 : 3) + 1;

// One worker's scratch memory, in 4-byte units.
inline constexpr uint64_t kSumsAt = 0;
inline constexpr uint64_t kWidenedAt = kSumsAt + uint64_t{kPassPanels} * kChunkRows * kPanelColumns;
inline constexpr uint64_t kRowsAt = kWidenedAt + uint64_t{kBlockValues} * kPanelColumns;
inline constexpr uint64_t kScratchFloats = kRowsAt + uint64_t{kChunkRows} * kF32Stride;

// Rows [first, first + rows) and panels of one pass.
struct Pass {
  uint32_t first_row, rows, first_panel, panels;
};

template <class W>
inline constexpr bool kTakesPairs = !__is_same(typename W::X, float);

// Steps of W that cover `values` values; a format of pairs has a zero behind an odd end.
template <class W>
constexpr uint32_t steps_of(uint32_t values) {
  const uint32_t each = kTakesPairs<W> ? 2 : W::kStep;
  return (values + each - 1) / each;
}

// Block `block` of the pass's rows, kXStride apart. Chosen rows are gathered into scratch.
template <class W>
const typename W::X* block_of_x(const MultiplyTask& task, const Pass& pass, uint64_t block) {
  using X = typename W::X;
  const X* all = static_cast<const X*>(task.prepared);
  all += block * task.x_rows * kXStride<W>;
  if (task.rows == nullptr) return all + uint64_t{pass.first_row} * kXStride<W>;
  // A single one lies well where it is.
  if (pass.rows == 1) return all + uint64_t{task.rows[pass.first_row]} * kXStride<W>;
  auto* gathered = reinterpret_cast<X*>(task.scratch + kRowsAt);
  for (uint32_t r = 0; r < pass.rows; ++r) {
    __builtin_memcpy(gathered + uint64_t{r} * kXStride<W>,
                     all + uint64_t{task.rows[pass.first_row + r]} * kXStride<W>,
                     kXStride<W> * sizeof(X));
  }
  return gathered;
}

inline uint32_t columns_of(const MultiplyTask& task, uint32_t panel) {
  const uint32_t left = task.n_out - panel * kPanelColumns;
  return left < kPanelColumns ? left : kPanelColumns;
}

// One row of panel `panel`: sums to y.
inline void finish(const MultiplyTask& task, uint32_t panel, uint32_t row, const float* sums,
                   const float* second) {
  const uint64_t column = uint64_t{panel} * kPanelColumns;
  simd::finish_row<kPanelVectors>(sums, second, task.y_row(row) + column,
                                  task.bias == nullptr ? nullptr : task.bias + column,
                                  task.scale_of(row), columns_of(task, panel), task.epilogue);
}

// `steps` steps of a panel as f32 [steps * kStep][kPanelColumns].
template <class W>
void widen(const std::byte* from, uint32_t steps, float* to) {
  F32 scale[kPanelVectors] = {};
  for (uint32_t s = 0; s < steps; ++s) {
    if constexpr (W::kScaleSteps > 0) {
      if (s % W::kScaleSteps == 0) {
        for (uint32_t v = 0; v < kPanelVectors; ++v) {
          scale[v] = simd::load_f16(from + v * simd::kLanes * 2);
        }
        from += kPanelColumns * 2;
      }
    }
    for (uint32_t v = 0; v < kPanelVectors; ++v) {
      const F32 word = W::load(from + v * W::kVectorBytes);
#pragma GCC unroll 8
      for (uint32_t j = 0; j < W::kStep; ++j) {
        simd::store(to + j * kPanelColumns + v * simd::kLanes, part_of<W>(word, j, scale[v]));
      }
    }
    from += kPanelVectors * W::kVectorBytes;
    to += W::kStep * kPanelColumns;
  }
}

// All rows of a pass in tiles that share one block. tile_of(rows): the tile for so many.
template <class W>
void in_row_tiles(TileTask task, uint32_t rows, TileFunction (*tile_of)(uint32_t rows)) {
  const TileTask whole = task;
  const uint32_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (uint32_t t = 0; t < tiles; ++t) {
    // Rows are spread evenly: one row alone would wait for its own sums.
    const uint32_t first = t * rows / tiles;
    const uint32_t count = (t + 1) * rows / tiles - first;
    const uint32_t first_line = t * whole.ahead_lines / tiles;
    task.x = static_cast<const typename W::X*>(whole.x) + uint64_t{first} * kXStride<W>;
    task.sums = whole.sums + uint64_t{first} * kPanelColumns;
    task.ahead = whole.ahead + uint64_t{first_line} * 64;
    task.ahead_lines = (t + 1) * whole.ahead_lines / tiles - first_line;
    tile_of(count)(task);
  }
}

// All rows of a pass times one block: of one panel in tiles, or, `alone`, of as many panels as one
// tile takes. task: the block; the rest is filled in here.
template <class W>
void multiply_block(const TileTask& task, uint32_t rows, bool alone) {
  in_row_tiles<W>(task, rows, alone ? &tile_for<W, true> : &tile_for<W, false>);
}

// The same with the weights as f32, made from W's. task: as for W, in steps of W.
template <class W>
void multiply_widened(const MultiplyTask& job, const TileTask& task, uint32_t rows) {
  float* widened = job.scratch + kWidenedAt;
  widen<W>(task.panel, task.steps, widened);
  multiply_block<F32Weights>({.panel = reinterpret_cast<const std::byte*>(widened),
                              .x = task.x,
                              .steps = task.steps * W::kStep,
                              .sums = task.sums,
                              .resume = task.resume,
                              .ahead = task.ahead,
                              .ahead_lines = task.ahead_lines},
                             rows, false);
}

// The same for formats that are read only this way. `alone` widens one group after the other, of as
// many panels as a tile takes: that much stays in the first cache.
template <class W>
void multiply_expanded(const MultiplyTask& job, const TileTask& task, uint32_t rows,
                       uint32_t panels, bool alone) {
  float* widened = job.scratch + kWidenedAt;
  const uint32_t groups = task.steps * W::kStep / sdk::kQuantGroupValues;
  TileTask block{.panel = reinterpret_cast<const std::byte*>(widened),
                 .panel_bytes = kGroupFloats * sizeof(float),
                 .x = task.x,
                 .steps = sdk::kQuantGroupValues,
                 .sums = task.sums,
                 .sums_stride = task.sums_stride,
                 .resume = task.resume,
                 .ahead = task.ahead,
                 .ahead_lines = task.ahead_lines};
  if (!alone) {
    for (uint32_t g = 0; g < groups; ++g) {
      W::widen(task.panel, g, task.block_groups, widened + g * kGroupFloats);
    }
    block.steps = groups * sdk::kQuantGroupValues;
    return multiply_block<F32Weights>(block, rows, false);
  }
  if (rows == 1) {
    static_assert(panels_at_once(1) % kRowPanels == 0);
    TileTask pair = task;
    for (uint32_t p = 0; p < panels; p += kRowPanels) {
      row_tile<W>(pair);
      pair.panel += kRowPanels * task.panel_bytes;
      pair.sums += kRowPanels * task.sums_stride;
    }
    return;
  }
  for (uint32_t g = 0; g < groups; ++g) {
    for (uint32_t p = 0; p < panels; ++p) {
      W::widen(task.panel + p * task.panel_bytes, g, task.block_groups, widened + p * kGroupFloats);
    }
    tile_for<F32Weights, true>(rows)(block);
    block.x = static_cast<const float*>(block.x) + sdk::kQuantGroupValues;
    block.resume = true;
  }
}

// The panels of a pass go through each block one by one or, `alone`, all of them in one tile.
template <class W>
void multiply_pass(const MultiplyTask& task, const Pass& pass, bool alone) {
  const uint32_t unit = alone ? pass.panels : 1;
  constexpr bool kNarrow = !__is_same(W, F32Weights) && !kTakesPairs<W>;
  const bool gated = task.epilogue == Epilogue::silu_mul;
  const uint32_t units = pass.panels / unit;
  const uint64_t bytes = panel_bytes(task.format, kPanelColumns, task.k_in, task.block_groups);
  const auto bytes_of = [&](uint32_t values) -> uint64_t {
    if constexpr (Expands<W>) {
      return W::bytes_of_groups(values / sdk::kQuantGroupValues, task.block_groups);
    } else {
      return bytes_of_steps<W>(steps_of<W>(values));
    }
  };
  const uint64_t panel_floats = uint64_t{pass.rows} * kPanelColumns;
  const uint32_t next_panel = pass.first_panel + pass.panels;
  const auto source = [&](uint32_t i) {
    return i < units ? task.panels + uint64_t{pass.first_panel + i * unit} * bytes
                     : task.second_panels + uint64_t{pass.first_panel + (i - units) * unit} * bytes;
  };
  const uint32_t sources = gated ? 2 * units : units;
  for (uint32_t begin = 0; begin < task.k_in; begin += kBlockValues) {
    const uint32_t left = task.k_in - begin;
    const uint32_t now = left < kBlockValues ? left : kBlockValues;
    const uint64_t at = bytes_of(begin);
    const typename W::X* x = block_of_x<W>(task, pass, begin / kBlockValues);
    for (uint32_t i = 0; i < sources; ++i) {
      TileTask block{.panel = source(i) + at,
                     .panel_bytes = bytes,
                     .block_groups = task.block_groups,
                     .x = x,
                     .steps = steps_of<W>(now),
                     .sums = task.scratch + kSumsAt + i * unit * panel_floats,
                     .sums_stride = panel_floats,
                     .resume = begin > 0};
      if (!task.asks_ahead && pass.rows == 1) block.near_bytes = 0;
      uint32_t ahead_values = now;
      if (i + 1 < sources) {
        block.ahead = source(i + 1) + at;
      } else if (left > kBlockValues) {
        block.ahead = source(0) + at + bytes_of(now);
      } else if (next_panel + unit <= task.last_panel) {
        block.ahead = task.panels + next_panel * bytes;
        ahead_values = task.k_in < kBlockValues ? task.k_in : kBlockValues;
      } else {
        ahead_values = 0;
      }
      block.ahead_lines = static_cast<uint32_t>(bytes_of(ahead_values) / 64);
      if constexpr (requires { &W::multiply_block; }) {
        W::multiply_block(task, block, pass.rows, alone);
        continue;
      } else if constexpr (Expands<W>) {
        multiply_expanded<W>(task, block, pass.rows, unit, alone);
        continue;
      } else if constexpr (kNarrow) {
        if (pass.rows >= kWidenRows<W>) {
          multiply_widened<W>(task, block, pass.rows);
          continue;
        }
      }
      if constexpr (!Expands<W>) multiply_block<W>(block, pass.rows, alone);
    }
  }
}

inline void finish_pass(const MultiplyTask& task, const Pass& pass) {
  const uint64_t panel_floats = uint64_t{pass.rows} * kPanelColumns;
  for (uint32_t r = 0; r < pass.rows; ++r) {
    for (uint32_t i = 0; i < pass.panels; ++i) {
      const float* sums = task.scratch + kSumsAt + i * panel_floats + r * kPanelColumns;
      finish(task, pass.first_panel + i, pass.first_row + r, sums,
             sums + pass.panels * panel_floats);
    }
  }
}

// Panels of one pass: as many as a tile takes for few rows, many for many rows.
inline uint32_t panels_of_pass(uint32_t rows, bool gated) {
  if (rows >= kManyRows) return gated ? kPassPanels / 2 : kPassPanels;
  return rows <= kTileRows ? panels_at_once(rows) : 1;
}

template <class W>
void multiply(const MultiplyTask& task) {
  const uint32_t chunks = (task.row_count + kChunkRows - 1) / kChunkRows;
  const uint32_t at_once = panels_of_pass(task.row_count, task.epilogue == Epilogue::silu_mul);
  for (uint32_t panel = task.first_panel; panel < task.last_panel;) {
    const uint32_t left = task.last_panel - panel;
    const bool alone = task.row_count <= kTileRows && left >= at_once;
    uint32_t panels = 1;
    if (alone || task.row_count >= kManyRows) panels = left < at_once ? left : at_once;
    for (uint32_t c = 0; c < chunks; ++c) {
      const auto first = static_cast<uint32_t>(uint64_t{c} * task.row_count / chunks);
      const auto last = static_cast<uint32_t>(uint64_t{c + 1} * task.row_count / chunks);
      const Pass pass{first, last - first, panel, panels};
      multiply_pass<W>(task, pass, alone);
      finish_pass(task, pass);
    }
    panel += panels;
  }
}

}  // namespace
}  // namespace tenon::dense
