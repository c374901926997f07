// Weights of block formats as column panels, as many bytes as in the file. A panel holds `columns`
// rows of W (columns of y) side by side and walks k group by group:
//
//   group   [columns] f16 scale
//           q8_0  [8] [columns] word of 4 values: value i in byte i
//           q4_0  [4] [columns] word of 8 values, by `NibbleOrder`:
//                   halves    value i in the low, value i + 4 in the high nibble of byte i
//                   in_turn   value i in bits 4i … 4i + 3
//
// Values are stored with an offset of the kernel's choice, modulo 256 or 16. Columns beyond n_out
// are zero.
#pragma once

#include <tenon/sdk/block_formats.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tenon::sdk {

enum class NibbleOrder : uint8_t { halves, in_turn };

struct BlockPanels {
  BlockFormat format = BlockFormat::q8_0;
  uint32_t columns = 0;
  uint32_t k_in = 0;
  NibbleOrder order = NibbleOrder::halves;
  uint32_t offset = 0;  // added to every stored value

  constexpr uint64_t group_bytes() const noexcept {
    return uint64_t{columns} * block_bytes(format);
  }
  constexpr uint64_t panel_bytes() const noexcept {
    return round_up(k_in / kBlockValues * group_bytes(), 64);
  }
};

namespace detail {

// Where value k of a group stands behind the scales.
struct BlockPlace {
  uint32_t byte, shift;
};
constexpr BlockPlace block_place(const BlockPanels& panels, uint32_t column, uint32_t k) noexcept {
  if (panels.format == BlockFormat::q8_0) {
    return {(k / 4 * panels.columns + column) * 4 + k % 4, 0};
  }
  const uint32_t word = (k / 8 * panels.columns + column) * 4;
  if (panels.order == NibbleOrder::halves) return {word + k % 4, k / 4 % 2 * 4};
  return {word + k % 8 / 2, k % 2 * 4};
}

}  // namespace detail

// Panel `panel` of `weight`, which check_block_weight accepts.
inline void pack_block_panel(const WeightView& weight, const BlockPanels& panels, uint32_t panel,
                             std::byte* to) noexcept {
  const TensorView& tensor = weight.parts[0];
  const uint32_t mask = panels.format == BlockFormat::q8_0 ? 255 : 15;
  const uint32_t first = panel * panels.columns;
  const uint32_t columns =
      weight.n_out - first < panels.columns ? weight.n_out - first : panels.columns;
  std::memset(to, 0, panels.panel_bytes());
  for (uint64_t g = 0; g < panels.k_in / kBlockValues; ++g) {
    std::byte* group = to + g * panels.group_bytes();
    std::byte* values = group + uint64_t{panels.columns} * 2;
    for (uint32_t c = 0; c < columns; ++c) {
      const std::byte* block = static_cast<const std::byte*>(tensor.data) +
                               (uint64_t{first} + c) * tensor.stride[0] +
                               g * block_bytes(panels.format);
      std::memcpy(group + 2 * c, block, 2);
      for (uint32_t k = 0; k < kBlockValues; ++k) {
        const auto place = detail::block_place(panels, c, k);
        const auto value =
            static_cast<uint32_t>(block_value(panels.format, block, k)) + panels.offset;
        values[place.byte] |= static_cast<std::byte>((value & mask) << place.shift);
      }
    }
  }
}

// Row `row` of the packed panels as f32 [k_in].
inline void unpack_block_row(const BlockPanels& panels, const std::byte* packed, uint32_t row,
                             float* out) noexcept {
  const uint32_t bits = panels.format == BlockFormat::q8_0 ? 8 : 4;
  const uint32_t column = row % panels.columns;
  const std::byte* group = packed + row / panels.columns * panels.panel_bytes();
  for (uint32_t first = 0; first < panels.k_in; first += kBlockValues) {
    const float scale = f16_to_float(block_scale(group + 2 * column));
    for (uint32_t k = 0; k < kBlockValues; ++k) {
      const auto place = detail::block_place(panels, column, k);
      const auto byte = static_cast<uint32_t>(group[uint64_t{panels.columns} * 2 + place.byte]);
      const uint32_t value = (byte >> place.shift) - panels.offset;
      // The value's bits alone, with its sign.
      const int32_t whole = static_cast<int32_t>(value << (32 - bits)) >> (32 - bits);
      out[first + k] = scale * static_cast<float>(whole);
    }
    group += panels.group_bytes();
  }
}

}  // namespace tenon::sdk
