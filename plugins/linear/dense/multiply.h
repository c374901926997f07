// x · Wᵀ over a range of panels. Few rows stream each panel once with all sums in registers; many
// rows go block by block of k, so that a block of weights stays in the first cache for all of them.
// Both end in the same micro-kernel and walk k in the same order.
#pragma once

#include <tenon/sdk/linear_epilogue.h>

#include "plugins/linear/dense/kernels.h"
#include "plugins/linear/dense/tile.h"

namespace tenon::dense {
namespace {

// A block of weights as f32, 256 x 32 x 4 bytes = 32 KiB, fits the first cache beside 12 KiB of x.
inline constexpr uint32_t kBlockValues = 256;
// Rows of one pass over the weights: 132 rows x 256 values of x are 132 KiB of the second cache.
inline constexpr uint32_t kChunkRows = kTileRows * 11;
// Panels of one pass over x; their sums, 16 x 132 rows x 128 bytes = 264 KiB, stay there as well.
inline constexpr uint32_t kPassPanels = 16;
// From here on 16-bit weights are widened once a block instead of once a tile.
inline constexpr uint32_t kWidenRows = kTileRows * 3 + 1;

// A block of x is copied together: its rows lie pages apart, where no prefetch follows. The stride
// is an odd number of cache lines.
inline constexpr uint32_t kBlockStride = kBlockValues + 16;

// One worker's scratch memory, in 4-byte units.
inline constexpr uint64_t kSumsAt = 0;
inline constexpr uint64_t kWidenedAt = kSumsAt + uint64_t{kPassPanels} * kChunkRows * kPanelColumns;
inline constexpr uint64_t kBlockAt = kWidenedAt + uint64_t{kBlockValues} * kPanelColumns;
inline constexpr uint64_t kScratchFloats = kBlockAt + uint64_t{kChunkRows} * kBlockStride;

template <class W>
const typename W::X* x_row(const MultiplyTask& task, uint32_t index) {
  const uint64_t row = task.rows == nullptr ? index : task.rows[index];
  if constexpr (sizeof(typename W::X) == 4 && __is_same(typename W::X, float)) {
    return task.f32_rows + row * f32_row_stride(task.k_in);
  } else {
    return task.pair_rows + row * pair_row_stride(task.k_in);
  }
}

// Steps of W that cover k_in; a format of pairs has a zero behind an odd end.
template <class W>
uint32_t steps_of(uint32_t k_in) {
  if constexpr (__is_same(typename W::X, float)) {
    return (k_in + W::kStep - 1) / W::kStep;
  } else {
    return (k_in + 1) / 2;
  }
}

inline uint32_t columns_of(const MultiplyTask& task, uint32_t panel) {
  const uint32_t left = task.n_out - panel * kPanelColumns;
  return left < kPanelColumns ? left : kPanelColumns;
}

// One row of panel `panel`: sums to y.
inline void finish(const MultiplyTask& task, uint32_t panel, uint32_t row, const float* sums,
                   const float* second) {
  const uint64_t column = uint64_t{panel} * kPanelColumns;
  simd::finish_row<kPanelVectors>(sums, second, task.y + row * task.y_stride + column,
                                  task.bias == nullptr ? nullptr : task.bias + column,
                                  columns_of(task, panel), task.epilogue);
}

// At most kTileRows rows: all of k at once.
template <class W>
void multiply_few(const MultiplyTask& task) {
  const uint32_t rows = task.row_count;
  const bool gated = task.epilogue == Epilogue::silu_mul;
  const uint64_t bytes = panel_bytes(task.format, kPanelColumns, task.k_in);
  const uint64_t panel_floats = uint64_t{rows} * kPanelColumns;
  const typename W::X* x[kTileRows];
  for (uint32_t r = 0; r < rows; ++r) x[r] = x_row<W>(task, r);
  alignas(64) float sums[4 * kTileRows * kPanelColumns];

  const uint32_t per_call = panels_at_once(rows);
  const uint32_t each = gated ? 2 : 1;  // panels that make one panel of y
  const uint32_t results = per_call >= each ? per_call / each : 1;
  for (uint32_t panel = task.first_panel; panel < task.last_panel;) {
    const uint32_t left = task.last_panel - panel;
    const uint32_t now = left < results ? left : results;
    const std::byte* sources[8];
    for (uint32_t i = 0; i < now; ++i) {
      sources[i] = task.panels + (panel + i) * bytes;
      if (gated) sources[now + i] = task.second_panels + (panel + i) * bytes;
    }
    const uint32_t count = now * each;
    if (count == per_call) {
      tile_for<W, true>(rows)(sources, x, steps_of<W>(task.k_in), sums, panel_floats, false);
    } else {
      for (uint32_t i = 0; i < count; ++i) {
        tile_for<W, false>(rows)(sources + i, x, steps_of<W>(task.k_in), sums + i * panel_floats,
                                 panel_floats, false);
      }
    }
    for (uint32_t i = 0; i < now; ++i) {
      for (uint32_t r = 0; r < rows; ++r) {
        finish(task, panel + i, r, sums + i * panel_floats + r * kPanelColumns,
               sums + (now + i) * panel_floats + r * kPanelColumns);
      }
    }
    panel += now;
  }
}

// `steps` steps of a panel as f32 [steps * kStep][kPanelColumns].
template <class W>
void widen(const std::byte* from, uint32_t steps, float* to) {
  for (uint32_t s = 0; s < steps; ++s) {
    for (uint32_t v = 0; v < kPanelVectors; ++v) {
      const F32 word = W::load(from + v * W::kVectorBytes);
      for (uint32_t j = 0; j < W::kStep; ++j) {
        simd::store(to + j * kPanelColumns + v * simd::kLanes, W::part(word, j));
      }
    }
    from += kPanelVectors * W::kVectorBytes;
    to += W::kStep * kPanelColumns;
  }
}

// Values [begin, begin + count) of every row to `to`, kBlockStride apart; asks for the next block.
template <class X>
void copy_block(const X* const* x, uint32_t rows, uint64_t begin, uint32_t count, X* to) {
  for (uint32_t r = 0; r < rows; ++r) {
    const X* row = x[r] + begin;
    __builtin_memcpy(to + uint64_t{r} * kBlockStride, row, count * sizeof(X));
    for (uint32_t i = 0; i < count; i += 16) __builtin_prefetch(row + count + i, 0, 2);
  }
}

// All rows of a chunk times one block of one panel. x: [rows] kBlockStride apart; sums:
// [rows][kPanelColumns].
template <class W>
void multiply_block(const std::byte* block, const typename W::X* x, uint32_t rows, uint32_t steps,
                    float* sums, bool resume) {
  const uint32_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (uint32_t t = 0; t < tiles; ++t) {
    // Rows are spread evenly: one row alone would wait for its own sums.
    const uint32_t first = t * rows / tiles;
    const uint32_t count = (t + 1) * rows / tiles - first;
    const typename W::X* row[kTileRows];
    for (uint32_t r = 0; r < count; ++r) row[r] = x + uint64_t{first + r} * kBlockStride;
    tile_for<W, false>(count)(&block, row, steps, sums + uint64_t{first} * kPanelColumns, 0,
                              resume);
  }
}

// Rows [first_row, first_row + rows) times panels [first_panel, first_panel + panels).
template <class W>
void multiply_pass(const MultiplyTask& task, uint32_t first_row, uint32_t rows,
                   uint32_t first_panel, uint32_t panels) {
  constexpr bool kNarrow = !__is_same(W, F32Weights) && __is_same(typename W::X, float);
  constexpr uint32_t kBlockSteps = kBlockValues / W::kStep;
  const uint32_t sources = task.epilogue == Epilogue::silu_mul ? 2 * panels : panels;
  const uint64_t bytes = panel_bytes(task.format, kPanelColumns, task.k_in);
  const uint64_t panel_floats = uint64_t{rows} * kPanelColumns;
  float* widened = task.scratch + kWidenedAt;
  auto* block = reinterpret_cast<typename W::X*>(task.scratch + kBlockAt);
  const typename W::X* x[kChunkRows];
  for (uint32_t r = 0; r < rows; ++r) x[r] = x_row<W>(task, first_row + r);

  const uint32_t steps = steps_of<W>(task.k_in);
  for (uint32_t begin = 0; begin < steps; begin += kBlockSteps) {
    const uint32_t now = steps - begin < kBlockSteps ? steps - begin : kBlockSteps;
    copy_block(x, rows, uint64_t{begin} * W::kStep, now * W::kStep, block);
    for (uint32_t i = 0; i < sources; ++i) {
      const std::byte* source = i < panels
                                    ? task.panels + (first_panel + i) * bytes
                                    : task.second_panels + (first_panel + i - panels) * bytes;
      source += uint64_t{begin} * kPanelVectors * W::kVectorBytes;
      float* sums = task.scratch + kSumsAt + i * panel_floats;
      if constexpr (kNarrow) {
        if (rows >= kWidenRows) {
          widen<W>(source, now, widened);
          multiply_block<F32Weights>(reinterpret_cast<const std::byte*>(widened), block, rows,
                                     now * W::kStep, sums, begin > 0);
          continue;
        }
      }
      multiply_block<W>(source, block, rows, now, sums, begin > 0);
    }
  }
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t i = 0; i < panels; ++i) {
      const float* sums = task.scratch + kSumsAt + i * panel_floats + r * kPanelColumns;
      finish(task, first_panel + i, first_row + r, sums, sums + panels * panel_floats);
    }
  }
}

template <class W>
void multiply(const MultiplyTask& task) {
  if (task.row_count <= kTileRows) {
    multiply_few<W>(task);
    return;
  }
  const uint32_t pass = task.epilogue == Epilogue::silu_mul ? kPassPanels / 2 : kPassPanels;
  const uint32_t chunks = (task.row_count + kChunkRows - 1) / kChunkRows;
  for (uint32_t panel = task.first_panel; panel < task.last_panel; panel += pass) {
    const uint32_t left = task.last_panel - panel;
    for (uint32_t c = 0; c < chunks; ++c) {
      const auto first = static_cast<uint32_t>(uint64_t{c} * task.row_count / chunks);
      const auto last = static_cast<uint32_t>(uint64_t{c + 1} * task.row_count / chunks);
      multiply_pass<W>(task, first, last - first, panel, left < pass ? left : pass);
    }
  }
}

}  // namespace
}  // namespace tenon::dense
