// Panels from row-major weights and back, and activations in the form that the kernels multiply.
#pragma once

#include <tenon/sdk/half.h>

#include "plugins/linear/dense/kernels.h"
#include "plugins/linear/dense/weights.h"

namespace tenon::dense {
namespace {

// A panel of `Unit`s: [units][kPanelColumns]. bf16 moves in units of two values.
template <class Unit>
void pack_panel(const PackSource& source, uint32_t panel, uint32_t values_per_unit, std::byte* to) {
  // Some cache lines of each row at a time; what is written stays in the first cache meanwhile.
  constexpr uint64_t kRun = 256 / sizeof(Unit);
  const uint64_t value_bytes = sizeof(Unit) / values_per_unit;
  const uint64_t whole = source.k_in / values_per_unit;
  const uint64_t units = (uint64_t{source.k_in} + values_per_unit - 1) / values_per_unit;
  const uint32_t first_row = panel * kPanelColumns;
  const auto store = [to](uint64_t u, uint32_t c, Unit unit) {
    __builtin_memcpy(to + (u * kPanelColumns + c) * sizeof(Unit), &unit, sizeof(Unit));
  };
  for (uint64_t begin = 0; begin < units; begin += kRun) {
    const uint64_t end = begin + kRun < units ? begin + kRun : units;
    for (uint32_t c = 0; c < kPanelColumns; ++c) {
      if (source.n_out - first_row <= c) {
        for (uint64_t u = begin; u < end; ++u) store(u, c, 0);
        continue;
      }
      const uint64_t n = first_row + c;
      const uint64_t stored = source.row_order == nullptr ? n : source.row_order[n];
      const std::byte* row = source.data + stored * source.row_bytes;
      const uint64_t last = end < whole ? end : whole;
      for (uint64_t u = begin; u < last; ++u) {
        Unit unit;
        __builtin_memcpy(&unit, row + u * sizeof(Unit), sizeof(Unit));
        store(u, c, unit);
      }
      if (last == end) continue;
      Unit unit = 0;  // an odd last value
      __builtin_memcpy(&unit, row + last * sizeof(Unit), value_bytes);
      store(last, c, unit);
    }
  }
}

inline void pack(const PackSource& source, uint32_t first_panel, uint32_t last_panel,
                 std::byte* panels) {
  const uint64_t bytes = panel_bytes(source.format, kPanelColumns, source.k_in);
  for (uint32_t panel = first_panel; panel < last_panel; ++panel) {
    std::byte* to = panels + panel * bytes;
    switch (source.format) {
      case Format::f32:
        pack_panel<uint32_t>(source, panel, 1, to);
        break;
      case Format::f16:
        pack_panel<uint16_t>(source, panel, 1, to);
        break;
      case Format::bf16:
        pack_panel<uint32_t>(source, panel, 2, to);
        break;
      default:
        break;  // blocks: not for an instruction set to do
    }
  }
}

inline void unpack_row(Format format, const std::byte* panels, uint32_t k_in, uint32_t row,
                       float* out) {
  const std::byte* panel =
      panels + (row / kPanelColumns) * panel_bytes(format, kPanelColumns, k_in);
  const uint32_t column = row % kPanelColumns;
  for (uint64_t k = 0; k < k_in; ++k) {
    uint16_t half = 0;
    switch (format) {
      case Format::f32:
        __builtin_memcpy(out + k, panel + (k * kPanelColumns + column) * 4, 4);
        break;
      case Format::f16:
        __builtin_memcpy(&half, panel + (k * kPanelColumns + column) * 2, 2);
        out[k] = sdk::f16_to_float(half);
        break;
      case Format::bf16:
        __builtin_memcpy(&half, panel + ((k / 2) * kPanelColumns + column) * 4 + (k % 2) * 2, 2);
        out[k] = sdk::bf16_to_float(half);
        break;
      default:
        break;
    }
  }
}

// `count` values of a row, zeros behind them up to a whole vector: an odd last value has a partner.
inline void prepare_block(const float* x, uint32_t count, RowForm form, uint32_t* to) {
  for (uint32_t k = 0; k < count; k += simd::kLanes) {
    F32 value = count - k >= simd::kLanes ? simd::load(x + k) : simd::load_first(x + k, count - k);
#if defined(__AVX512F__)
    if (form == RowForm::crossed) value = _mm512_permute_ps(value, 0b11011000);
#endif
    if (form == RowForm::singles) {
      simd::store(reinterpret_cast<float*>(to) + k, value);
    } else {
      simd::store_bf16(reinterpret_cast<uint16_t*>(to) + k, value);
    }
  }
}

inline void prepare(const PrepareTask& task) {
  for (uint64_t r = task.first_row; r < task.last_row; ++r) {
    const float* x = task.x_row(r);
    for (uint32_t first = 0; first < task.k_in; first += kBlockValues) {
      const uint32_t left = task.k_in - first;
      const uint32_t now = left < kBlockValues ? left : kBlockValues;
      const uint64_t place = uint64_t{first / kBlockValues} * task.rows + r;
      float ordered[kBlockValues];
      const float* from = x + first;
      if (task.order != nullptr) {
        for (uint32_t i = 0; i < now; ++i) ordered[i] = x[task.order[first + i]];
        from = ordered;
      }
      prepare_block(from, now, task.form,
                    static_cast<uint32_t*>(task.prepared) + place * row_stride(task.form));
    }
  }
}

}  // namespace
}  // namespace tenon::dense
