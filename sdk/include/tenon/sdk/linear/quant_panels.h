// Weights of quantised formats as column panels. A panel holds `columns` rows of W (columns of y)
// side by side and walks k group by group, 32 values at a time:
//
//   block   [columns] scale (QuantShape::scale_type), [columns] f16 minimum or zero point where the
//           format has one
//           [groups] [columns] small scales of all groups, where each has one byte
//           then its groups, one to eight, or as many as the kernel wants:
//   group   [2] [columns] small scales, where each group has two bytes
//           8 bits  [8] [columns] word of 4 values: value i in byte i
//           4 bits  [4] [columns] word of 8 values, by `NibbleOrder`:
//                     halves    value i in the low, value i + 4 in the high nibble of byte i
//                     in_turn   value i in bits 4i … 4i + 3
//           2 bits  [2] [columns] word of 16 values: value i in bits 2 · (i / 4) … of byte i % 4
//           3 bits  [3] [columns] words of 8 values: value i of the first four in the low three
//           bits
//                   of byte i, of the next four in bits 4 … 6; value i of the last eight in bit 3
//                   (i < 4) or 7 of byte i % 4 of the three words, low bits first
//           5 bits  as 4 bits in halves, then [columns] word of the top bits: of value i in byte
//                   i % 4, bit i / 4
//           6 bits  [2] [3] [columns] words of 16 values: value i in the low bits of byte i % 4 of
//                   word i / 4; the last four in the top two bits of each, high bits first
//
// These are as many bytes as in the file, but where small scales have fewer than 8 bits there (q4_k
// and q5_k 2.8 % and 2.3 % more, q3_k 3.6 %, iq4_xs 1.5 %), in tq1_0, and in formats of a lattice.
// Values are stored as in the file or with an offset of the kernel's choice, modulo 2^bits. Columns
// beyond n_out are zero.
#pragma once

#include <tenon/sdk/linear/quant_formats.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tenon::sdk {

enum class NibbleOrder : uint8_t { halves, in_turn };

struct QuantPanels {
  QuantFormat format = QuantFormat::q8_0;
  uint32_t columns = 0;
  uint32_t k_in = 0;
  NibbleOrder order = NibbleOrder::halves;
  uint32_t offset = 0;  // added to every stored value
  // Groups behind one header, which divide those of the format; 0 = as many as it has. More headers
  // say the same several times.
  uint32_t header_groups = 0;

  constexpr uint32_t block_groups() const noexcept {
    return header_groups == 0 ? quant_shape(format).groups() : header_groups;
  }
  constexpr uint64_t scales_bytes() const noexcept {
    return uint64_t{columns} * scale_bytes(quant_shape(format).scale_type);
  }
  constexpr uint64_t second_bytes() const noexcept {
    return quant_shape(format).has_second() ? uint64_t{columns} * 2 : 0;
  }
  // Whether small scales stand in the header.
  constexpr bool small_first() const noexcept {
    return small_bytes_of(quant_shape(format).small) == 1;
  }
  constexpr uint64_t header_bytes() const noexcept {
    return scales_bytes() + second_bytes() +
           (small_first() ? uint64_t{block_groups()} * columns : 0);
  }
  // Before each group.
  constexpr uint64_t small_bytes() const noexcept {
    return small_first() ? 0 : uint64_t{columns} * small_bytes_of(quant_shape(format).small);
  }
  // From a block to the small scales of its group `group`.
  constexpr uint64_t small_at(uint64_t group) const noexcept {
    if (small_first()) return scales_bytes() + second_bytes() + group * columns;
    return header_bytes() + group * group_bytes();
  }
  constexpr uint64_t group_bytes() const noexcept {
    return small_bytes() + uint64_t{columns} * quant_shape(format).bits * (kQuantGroupValues / 8);
  }
  constexpr uint64_t block_bytes() const noexcept {
    return header_bytes() + group_bytes() * block_groups();
  }
  // Of the panel's first `groups` groups, whole blocks.
  constexpr uint64_t groups_bytes(uint64_t groups) const noexcept {
    return groups / block_groups() * block_bytes();
  }
  constexpr uint64_t panel_bytes() const noexcept {
    return round_up(groups_bytes(k_in / kQuantGroupValues), 64);
  }
};

namespace detail {

// `count` bits of a value, from bit `from` on, in bits `at` … of a byte after the small scales.
struct BitPiece {
  uint32_t byte, at, from, count;
};
struct BitPieces {
  BitPiece piece[3];
  uint32_t count;
};
// Where value k of a group stands.
constexpr BitPieces bits_of_value(uint32_t bits, NibbleOrder order, uint32_t columns,
                                  uint32_t column, uint32_t k) noexcept {
  const auto byte = [&](uint32_t word, uint32_t which) {
    return (word * columns + column) * 4 + which;
  };
  const uint32_t b = k % 4;
  if (bits == 8) return {{{byte(k / 4, b), 0, 0, 8}}, 1};
  if (bits == 6) {
    const uint32_t first = k / 16 * 3, step = k / 4 % 4;
    if (step < 3) return {{{byte(first + step, b), 0, 0, 6}}, 1};
    return {
        {{byte(first, b), 6, 4, 2}, {byte(first + 1, b), 6, 2, 2}, {byte(first + 2, b), 6, 0, 2}},
        3};
  }
  if (bits == 2) return {{{byte(k / 16, b), k / 4 % 4 * 2, 0, 2}}, 1};
  if (bits == 3) {
    const uint32_t step = k / 4, at = step % 2 * 4;
    if (step < 6) return {{{byte(step / 2, b), at, 0, 3}}, 1};
    return {{{byte(0, b), at + 3, 0, 1}, {byte(1, b), at + 3, 1, 1}, {byte(2, b), at + 3, 2, 1}},
            3};
  }
  if (order == NibbleOrder::in_turn) return {{{byte(k / 8, k % 8 / 2), k % 2 * 4, 0, 4}}, 1};
  const BitPiece low{byte(k / 8, b), k / 4 % 2 * 4, 0, 4};
  if (bits == 4) return {{low}, 1};
  return {{low, {byte(4, b), k / 4, 4, 1}}, 2};
}

inline float panel_scale(ScaleType type, const std::byte* scales, uint32_t column) noexcept {
  if (type == ScaleType::f16) return f16_to_float(half_at(scales + 2 * column));
  if (type == ScaleType::bf16) return bf16_to_float(half_at(scales + 2 * column));
  float scale;
  std::memcpy(&scale, scales + 4 * column, 4);
  return scale;
}
// Of value k of a group. `small`: the small scales of the group.
inline QuantScale scale_of_value(const QuantPanels& panels, const std::byte* block,
                                 const std::byte* small, uint32_t column, uint32_t k) noexcept {
  const QuantShape shape = quant_shape(panels.format);
  const std::byte* second = block + panels.scales_bytes() + 2 * uint64_t{column};
  QuantScale out{panel_scale(shape.scale_type, block, column), -0.0f};
  if (shape.has_minimum) out.minimum = f16_to_float(half_at(second));
  if (shape.has_zero) out.minimum = -(out.scale * f16_to_float(half_at(second)));
  uint8_t bytes[2] = {};
  for (uint32_t i = 0; i < small_bytes_of(shape.small); ++i) {
    bytes[i] = static_cast<uint8_t>(small[i * panels.columns + column]);
  }
  return times_small(shape, out, bytes, k / 16);
}
// The stored bits of value k beyond those that the panel holds.
inline uint32_t whole_code(const QuantShape& shape, uint32_t columns, const std::byte* small,
                           uint32_t column, uint32_t k, uint32_t stored) noexcept {
  if (shape.small != SmallScales::shifted_halves) return stored;
  const auto bits = static_cast<uint32_t>(small[k / 16 * columns + column]);
  return 8 * stored + 2 * (bits >> (4 + k / 8 % 2) & 1);
}

// What bits of a panel stand for, before scale and minimum.
inline float level_of(const QuantShape& shape, uint32_t stored, uint32_t offset) noexcept {
  const uint32_t code = offset == 0 ? stored : (stored - offset) & ((1u << shape.bits) - 1);
  if (shape.table != nullptr) return shape.table[code];
  if (shape.float8) return float8_value(code);
  auto whole = static_cast<int32_t>(code);
  if (shape.format == QuantFormat::q8_0) whole = static_cast<int8_t>(code);
  return static_cast<float>(whole - static_cast<int32_t>(shape.zero));
}

}  // namespace detail

// Row `row` of the packed panels as f32 [k_in]; value i goes to out[order[i]], if there is one.
inline void unpack_quant_row(const QuantPanels& panels, const std::byte* packed, uint32_t row,
                             const int32_t* order, float* out) noexcept {
  const QuantShape shape = quant_shape(panels.format);
  const uint32_t column = row % panels.columns;
  const uint32_t values_a_block = panels.block_groups() * kQuantGroupValues;
  const std::byte* block = packed + row / panels.columns * panels.panel_bytes();
  for (uint32_t first = 0; first < panels.k_in; first += kQuantGroupValues) {
    if (first > 0 && first % values_a_block == 0) block += panels.block_bytes();
    const std::byte* group = block + panels.header_bytes() +
                             first % values_a_block / kQuantGroupValues * panels.group_bytes();
    const std::byte* values = group + panels.small_bytes();
    const std::byte* small = block + panels.small_at(first % values_a_block / kQuantGroupValues);
    for (uint32_t k = 0; k < kQuantGroupValues; ++k) {
      const auto place = detail::bits_of_value(shape.bits, panels.order, panels.columns, column, k);
      uint32_t stored = 0;
      for (uint32_t i = 0; i < place.count; ++i) {
        const detail::BitPiece& piece = place.piece[i];
        const auto byte = static_cast<uint32_t>(values[piece.byte]);
        stored |= (byte >> piece.at & ((1u << piece.count) - 1)) << piece.from;
      }
      const auto scale = detail::scale_of_value(panels, block, small, column, k);
      stored = detail::whole_code(shape, panels.columns, small, column, k, stored);
      out[order == nullptr ? first + k : static_cast<uint32_t>(order[first + k])] =
          scale.scale * detail::level_of(shape, stored, panels.offset) + scale.minimum;
    }
  }
}

}  // namespace tenon::sdk
