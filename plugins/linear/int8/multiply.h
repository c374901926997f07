// x · Wᵀ over a range of panels, block of k by block of k: a block of weights stays in the first
// cache for all rows, and while it is multiplied the next one is asked for, spread evenly over the
// tiles. Few rows walk one panel after the other, so memory is read from front to back; many rows
// take several panels a block, so that their part of x is read once for all of them.
#pragma once

#include <tenon/sdk/linear/epilogue.h>

#include "plugins/linear/int8/quant_tile.h"
#include "plugins/linear/int8/tile.h"

namespace tenon::int8 {
namespace {

// Rows of one pass over the weights: 132 rows of a block of x are 140 KiB of the second cache.
inline constexpr uint32_t kChunkRows = 132;
// Panels of one pass over x; their sums, 8 x 132 rows x 128 bytes = 132 KiB, stay there as well.
inline constexpr uint32_t kPassPanels = 8;
// From here on a pass takes several panels.
inline constexpr uint32_t kManyRows = 65;
// From here on scales, and narrow weights, are widened once a block instead of once a tile. Two
// packed tiles of eight rows are faster than three of widened weights. Bytes that are split gain by
// it earlier.
constexpr uint32_t widen_rows(Format format) {
  if (format == Format::q8_0) return (kSplitsSigns ? 4 : 8) * kTileRows;
  if (format == Format::q4_0) return 4 * kTileRows;
  return simd::kRegisters == 32 ? 2 * kMostPackedRows + 1 : 2 * kTileRows;
}

// One worker's scratch memory.
inline constexpr uint64_t kSumsBytes = uint64_t{kPassPanels} * kChunkRows * kPanelColumns * 4;
inline constexpr uint64_t kRowsBytes = uint64_t{kChunkRows} * kRowBlockBytes;
inline constexpr uint64_t kScratchBytes =
    kSumsBytes + kRowsBytes + kBlockGroups * kWidestGroupBytes;

// Bytes of the first `groups` groups of a panel, whole blocks.
template <class L>
constexpr uint64_t bytes_of_groups(uint64_t groups, uint32_t block_groups) {
  if constexpr (IsBlocks<L>) {
    return groups * L::kGroupBytes + groups / L::block_groups(block_groups) * L::kHeaderBytes;
  } else {
    return groups * kGroupBytes<L>;
  }
}
template <class L>
struct WidenedForm {
  using Type = Widened<L>;
};
template <class L>
requires IsBlocks<L>
struct WidenedForm<L> {
  using Type = WidenedBlocks<typename L::Block>;
};

// Rows [first, first + rows) and panels of one pass.
struct Pass {
  uint32_t first_row, rows, first_panel, panels;
};

inline const std::byte* panel_at(const MultiplyTask& task, bool second, uint32_t panel) {
  return (second ? task.second_panels : task.panels) + panel * task.panel_bytes;
}

// Also one behind this worker's part: its next part most often begins there.
inline bool has_panel(const MultiplyTask& task, uint32_t panel) {
  return uint64_t{panel} * kPanelColumns < task.n_out;
}

// Block `block` of the pass's rows, kRowBlockBytes apart. Chosen rows are gathered into scratch.
inline const std::byte* block_of_x(const MultiplyTask& task, const Pass& pass, uint64_t block) {
  const std::byte* all = task.prepared + block * task.x_rows * kRowBlockBytes;
  if (task.rows == nullptr) return all + uint64_t{pass.first_row} * kRowBlockBytes;
  // A single one lies well where it is.
  if (pass.rows == 1) return all + uint64_t{task.rows[pass.first_row]} * kRowBlockBytes;
  std::byte* gathered = task.scratch + kSumsBytes;
  for (uint32_t r = 0; r < pass.rows; ++r) {
    __builtin_memcpy(gathered + uint64_t{r} * kRowBlockBytes,
                     all + uint64_t{task.rows[pass.first_row + r]} * kRowBlockBytes,
                     kBlockGroups * sizeof(RowGroup));
  }
  return gathered;
}

// `groups` groups of a panel, widened.
template <class L>
requires(!IsBlocks<L>) const std::byte* widen(const std::byte* from, uint32_t groups, uint32_t,
                                              std::byte* to) {
  const std::byte* made = to;
  for (uint32_t g = 0; g < groups; ++g) {
    for (uint32_t v = 0; v < kPanelVectors; ++v) {
      simd::store(reinterpret_cast<float*>(to) + v * simd::kLanes, L::scale(from, v));
    }
    const std::byte* words = from + L::kScaleBytes;
    const auto bytes = [words](uint32_t v, uint32_t s) {
      const uint32_t word = s / L::kSteps * kPanelVectors + v;
      return L::part(load_bytes(words + word * kVectorBytes), s % L::kSteps);
    };
    if constexpr (Widened<L>::kSplit) {
      split_group<DotSplit>(to + Widened<L>::kStartsAt, to + Widened<L>::kScaleBytes, bytes);
    } else {
      store_group(to + Widened<L>::kScaleBytes, bytes);
    }
    from += kGroupBytes<L>;
    to += kGroupBytes<Widened<L>>;
  }
  return made;
}

// All rows of a pass times one block of one panel. task: the block, without tile and rows.
template <class L>
void multiply_block(TileTask task, uint32_t rows, uint64_t ahead_bytes) {
  const std::byte* x = task.x;
  const std::byte* ahead = task.ahead;
  float* sums = task.sums;
  const uint32_t tiles = (rows + kMostRows<L> - 1) / kMostRows<L>;
  const auto lines = static_cast<uint32_t>((ahead_bytes + 63) / 64);
  task.ahead_stride = ahead_bytes;
  const bool by_steps = L::kPacked && rows > 1 && tiles <= 8 && lines > 0;
  for (uint32_t t = 0; t < tiles; ++t) {
    // Rows are spread evenly: one row alone would wait for its own sums.
    const uint32_t first = t * rows / tiles;
    const uint32_t count = (t + 1) * rows / tiles - first;
    task.x = x + uint64_t{first} * kRowBlockBytes;
    task.sums = sums + uint64_t{first} * kPanelColumns;
    if (by_steps) {
      task.ahead_steps = 0;
      for (uint32_t s = t; s < 8; s += tiles) task.ahead_steps |= 1u << s;
    } else {
      const uint32_t first_line = t * lines / tiles;
      task.ahead = ahead + uint64_t{first_line} * 64;
      task.ahead_lines = (t + 1) * lines / tiles - first_line;
    }
    tile_for<L>(count)(task);
  }
}

// Source `i` of a pass: its panels, then those of the second weight.
inline const std::byte* source_at(const MultiplyTask& task, const Pass& pass, uint32_t i) {
  return i < pass.panels ? panel_at(task, false, pass.first_panel + i)
                         : panel_at(task, true, pass.first_panel + i - pass.panels);
}

// Rows of a pass that reads each panel from front to back, and the bytes that it asks for lines in
// front of what it reads. A single row of 8 bits computes little, and the processor keeps up.
constexpr uint32_t rows_in_turn(const MultiplyTask& task) {
  if (task.asks_ahead) return 0;
  return task.row_lead > 0 ? 2 : 1;
}
template <class L>
constexpr uint32_t lead_of(const MultiplyTask& task, uint32_t rows) {
  constexpr bool kNarrow = bytes_of_group<L>() < kGroupValues * kPanelColumns;
  return rows > 1 || kNarrow ? task.row_lead : 0;
}

// Few rows, where the processor fetches by itself what is read in turn: each panel from front to
// back. What is behind a jump it does not guess, and between two panels it would pause; so the
// first lines of the next panel are asked for at the end of this one.
template <class L>
class InTurn {
 public:
  InTurn(const MultiplyTask& task, const Pass& pass)
      : task_(task),
        pass_(pass),
        groups_(task.k_in / kGroupValues),
        lead_(lead_of<L>(task, pass.rows)) {}

  // Source `i`; `next`: what is read behind it, or null.
  void multiply(uint32_t i, const std::byte* panel, const std::byte* next) const {
    for (uint32_t begin = 0; begin < groups_; begin += kBlockGroups) {
      const uint32_t now = groups_ - begin < kBlockGroups ? groups_ - begin : kBlockGroups;
      TileTask block{.panel = panel + bytes_of(begin),
                     .x = block_of_x(task_, pass_, begin / kBlockGroups),
                     .groups = now,
                     .block_groups = task_.block_groups,
                     .sums = reinterpret_cast<float*>(task_.scratch) +
                             uint64_t{i} * pass_.rows * kPanelColumns,
                     .resume = begin > 0,
                     .in_turn = lead_ == 0};
      const bool ends = begin + now == groups_ && next != nullptr;
      if (!ends) {
        run(block, block.panel + lead_, lead_ == 0 ? 0 : bytes_of(now));
      } else if (lead_ == 0) {
        run(block, next, 64 * now);
      } else {
        run_end(block, next);
      }
    }
  }

 private:
  uint64_t bytes_of(uint32_t groups) const {
    return bytes_of_groups<L>(groups, task_.block_groups);
  }

  // Asks for `bytes` from `ahead` on, spread over the block's groups.
  void run(TileTask block, const std::byte* ahead, uint64_t bytes) const {
    block.ahead = ahead;
    block.ahead_stride = bytes / block.groups;
    block.ahead_lines = static_cast<uint32_t>((block.ahead_stride + 63) / 64);
    if (pass_.rows > 1 && L::kPacked && bytes > 0) block.ahead_steps = 0xff;
    tile_for<L>(pass_.rows)(block);
  }
  // A panel's last block: groups that come before the last `lead_` bytes ask in this panel, the
  // others in the next one.
  void run_end(TileTask block, const std::byte* next) const {
    uint32_t whole = 1;
    if constexpr (IsBlocks<L>) whole = L::block_groups(task_.block_groups);
    uint32_t here = 0;
    while (here + whole < block.groups &&
           bytes_of(here + whole) + lead_ <= bytes_of(block.groups) + bytes_of(whole) / 2) {
      here += whole;
    }
    if (here > 0) {
      TileTask front = block;
      front.groups = here;
      run(front, block.panel + lead_, bytes_of(here));
      block.panel += bytes_of(here);
      block.x += here * sizeof(RowGroup);
      block.groups -= here;
      block.resume = true;
    }
    run(block, next, lead_);
  }

  const MultiplyTask& task_;
  const Pass& pass_;
  const uint32_t groups_;
  const uint32_t lead_;
};

template <class L>
void multiply_in_turn(const MultiplyTask& task, const Pass& pass, uint32_t sources) {
  const InTurn<L> turn(task, pass);
  for (uint32_t i = 0; i < sources; ++i) {
    const uint32_t next_panel = pass.first_panel + pass.panels;
    const std::byte* next = nullptr;
    if (i + 1 < sources) {
      next = source_at(task, pass, i + 1);
    } else if (has_panel(task, next_panel)) {
      next = panel_at(task, false, next_panel);
    }
    turn.multiply(i, source_at(task, pass, i), next);
  }
}

template <class L>
void multiply_pass(const MultiplyTask& task, const Pass& pass) {
  const bool gated = task.epilogue == Epilogue::silu_mul;
  const uint32_t sources = gated ? 2 * pass.panels : pass.panels;
  if (pass.rows <= rows_in_turn(task)) return multiply_in_turn<L>(task, pass, sources);
  const uint32_t groups = task.k_in / kGroupValues;
  const uint64_t panel_floats = uint64_t{pass.rows} * kPanelColumns;
  const uint32_t each = task.block_groups;
  auto* all_sums = reinterpret_cast<float*>(task.scratch);
  const auto source = [&](uint32_t i) { return source_at(task, pass, i); };
  for (uint32_t begin = 0; begin < groups; begin += kBlockGroups) {
    const uint32_t now = groups - begin < kBlockGroups ? groups - begin : kBlockGroups;
    const std::byte* x = block_of_x(task, pass, begin / kBlockGroups);
    for (uint32_t i = 0; i < sources; ++i) {
      TileTask block{.panel = source(i) + bytes_of_groups<L>(begin, each),
                     .x = x,
                     .groups = now,
                     .block_groups = each,
                     .sums = all_sums + i * panel_floats,
                     .resume = begin > 0};
      const uint32_t next_panel = pass.first_panel + pass.panels;
      if (i + 1 < sources) {
        block.ahead = source(i + 1) + bytes_of_groups<L>(begin, each);
      } else if (begin + now < groups) {
        block.ahead = source(0) + bytes_of_groups<L>(begin + now, each);
      } else if (has_panel(task, next_panel)) {
        block.ahead = panel_at(task, false, next_panel);
      }
      const uint64_t ahead_bytes = block.ahead == nullptr ? 0 : bytes_of_groups<L>(now, each) / now;
      if (pass.rows >= widen_rows(L::kFormat)) {
        block.panel = widen<L>(block.panel, now, each, task.scratch + kSumsBytes + kRowsBytes);
        multiply_block<typename WidenedForm<L>::Type>(block, pass.rows, ahead_bytes);
      } else {
        multiply_block<L>(block, pass.rows, ahead_bytes);
      }
    }
  }
}

inline void finish_pass(const MultiplyTask& task, const Pass& pass) {
  const uint64_t panel_floats = uint64_t{pass.rows} * kPanelColumns;
  const auto* all_sums = reinterpret_cast<const float*>(task.scratch);
  for (uint32_t r = 0; r < pass.rows; ++r) {
    for (uint32_t i = 0; i < pass.panels; ++i) {
      const float* sums = all_sums + i * panel_floats + r * kPanelColumns;
      const uint64_t column = (uint64_t{pass.first_panel} + i) * kPanelColumns;
      const uint64_t left = task.n_out - column;
      const uint32_t row = pass.first_row + r;
      simd::finish_row<kPanelVectors>(
          sums, sums + pass.panels * panel_floats, task.y_row(row) + column,
          task.bias == nullptr ? nullptr : task.bias + column, task.scale_of(row),
          static_cast<uint32_t>(left < kPanelColumns ? left : kPanelColumns), task.epilogue);
    }
  }
}

template <class L>
void multiply_all(const MultiplyTask& task) {
  uint32_t at_once = 1;
  if (task.row_count >= kManyRows) {
    at_once = task.epilogue == Epilogue::silu_mul ? kPassPanels / 2 : kPassPanels;
  }
  const uint32_t chunks = (task.row_count + kChunkRows - 1) / kChunkRows;
  for (uint32_t panel = task.first_panel; panel < task.last_panel; panel += at_once) {
    const uint32_t left = task.last_panel - panel;
    for (uint32_t c = 0; c < chunks; ++c) {
      const auto first = static_cast<uint32_t>(uint64_t{c} * task.row_count / chunks);
      const auto last = static_cast<uint32_t>(uint64_t{c + 1} * task.row_count / chunks);
      const Pass pass{first, last - first, panel, left < at_once ? left : at_once};
      multiply_pass<L>(task, pass);
      finish_pass(task, pass);
    }
  }
}

template <class F>
struct PackedForm {
  using Type = PackedBlocks<F>;
};
template <>
struct PackedForm<sdk::Q8Block> {
  using Type = PackedQ8;
};
template <>
struct PackedForm<sdk::Q4Block> {
  using Type = PackedQ4;
};

// F: the struct of a format.
template <class F>
void multiply(const MultiplyTask& task) {
  multiply_all<typename PackedForm<F>::Type>(task);
}

}  // namespace
}  // namespace tenon::int8
