// Panels from rows of blocks and back, and activations as 8-bit groups.
#pragma once

#include "plugins/linear/int8/tile.h"

namespace tenon::int8 {
namespace {

// Value k of a block as the panel stores it.
[[gnu::always_inline]] inline uint32_t stored_value(Format format, const std::byte* block,
                                                    uint32_t k) {
  const uint32_t offset = kStoredOffset[static_cast<uint32_t>(format)];
  return (static_cast<uint32_t>(sdk::block_value(format, block, k)) + offset) & 255u;
}

// Where value k of a group stands: byte, and shift within it.
struct Place {
  uint32_t byte, shift;
};
constexpr Place place_of(Format format, uint32_t column, uint32_t k) {
  if (format == Format::q8_0) return {(k / 4 * kPanelColumns + column) * 4 + k % 4, 0};
  return {(k / 8 * kPanelColumns + column) * 4 + k % 4, k / 4 % 2 * 4};
}

inline void pack_panel(const PackSource& source, uint32_t panel, std::byte* to) {
  const uint64_t bytes = group_bytes(source.format, kPanelColumns);
  const uint64_t in_block = sdk::block_bytes(source.format);
  const uint32_t first_row = panel * kPanelColumns;
  const uint64_t groups = source.k_in / kGroupValues;
  __builtin_memset(to, 0, panel_bytes(source.format, kPanelColumns, source.k_in));
  for (uint64_t g = 0; g < groups; ++g) {
    std::byte* group = to + g * bytes;
    std::byte* values = group + kPanelColumns * 2;
    for (uint32_t c = 0; c < kPanelColumns && c < source.n_out - first_row; ++c) {
      const std::byte* block =
          source.data + (uint64_t{first_row} + c) * source.row_bytes + g * in_block;
      __builtin_memcpy(group + 2 * c, block, 2);
      for (uint32_t k = 0; k < kGroupValues; ++k) {
        const Place place = place_of(source.format, c, k);
        values[place.byte] |=
            static_cast<std::byte>(stored_value(source.format, block, k) << place.shift);
      }
    }
  }
}

inline void pack(const PackSource& source, uint32_t first_panel, uint32_t last_panel,
                 std::byte* panels) {
  const uint64_t bytes = panel_bytes(source.format, kPanelColumns, source.k_in);
  for (uint32_t panel = first_panel; panel < last_panel; ++panel) {
    pack_panel(source, panel, panels + panel * bytes);
  }
}

inline void unpack_row(Format format, const std::byte* panels, uint32_t k_in, uint32_t row,
                       float* out) {
  const uint32_t column = row % kPanelColumns;
  const uint32_t mask = format == Format::q8_0 ? 255 : 15;
  const uint32_t offset = kStoredOffset[static_cast<uint32_t>(format)];
  const std::byte* group = panels + row / kPanelColumns * panel_bytes(format, kPanelColumns, k_in);
  for (uint64_t first = 0; first < k_in; first += kGroupValues) {
    const float scale = sdk::f16_to_float(sdk::block_scale(group + 2 * column));
    for (uint32_t k = 0; k < kGroupValues; ++k) {
      const Place place = place_of(format, column, k);
      const auto byte = static_cast<uint32_t>(group[kPanelColumns * 2 + place.byte]);
      const uint32_t value = (byte >> place.shift & mask) - offset;
      out[first + k] = scale * static_cast<float>(static_cast<int8_t>(value));
    }
    group += group_bytes(format, kPanelColumns);
  }
}

// x [32] as q · scale with |q| <= 127. A value that is not a number, or infinite, makes the scale
// NaN and with it every product; values too small to be scaled become zero.
inline void quantise(const float* x, RowGroup& to) {
  F32 most = simd::zero();
  F32 poison = simd::zero();
#pragma GCC unroll 8
  for (uint32_t i = 0; i < kGroupValues; i += simd::kLanes) {
    const F32 value = simd::load(x + i);
    most = simd::max(most, simd::max(value, simd::sub(simd::zero(), value)));
    poison = simd::fma(value, simd::zero(), poison);
  }
  const float largest = simd::reduce_max(most);
  const bool scaled = largest > 1e-35f;
  const F32 inverse = simd::set1(scaled ? 127.0f / largest : 0.0f);
  F32 total = simd::zero();
#pragma GCC unroll 8
  for (uint32_t i = 0; i < kGroupValues; i += simd::kLanes) {
    const F32 whole = simd::round(simd::mul(simd::load(x + i), inverse));
    total = simd::add(total, whole);
    store_int8(whole, to.q + i);
  }
  to.scale = (scaled ? largest / 127.0f : 0.0f) + simd::reduce_add(poison);
  const float sum = simd::reduce_add(total);  // exact: integers below 2^12
  const int32_t whole_sum = sum == sum ? static_cast<int32_t>(sum) : 0;
  for (uint32_t format = 0; format < 2; ++format) {
    to.start[format] = kStartBits - static_cast<int32_t>(kStoredOffset[format]) * whole_sum;
  }
  to.reserved = 0;
}

inline void prepare(const PrepareTask& task) {
  const uint32_t groups = task.k_in / kGroupValues;
  for (uint64_t r = task.first_row; r < task.last_row; ++r) {
    const float* x = task.x + r * task.x_stride;
    for (uint32_t g = 0; g < groups; ++g) {
      const uint64_t block = g / kBlockGroups;
      std::byte* to = task.prepared + (block * task.rows + r) * kRowBlockBytes;
      quantise(x + uint64_t{g} * kGroupValues, reinterpret_cast<RowGroup*>(to)[g % kBlockGroups]);
    }
  }
}

}  // namespace
}  // namespace tenon::int8
