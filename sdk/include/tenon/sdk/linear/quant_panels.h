// Weights of quantised formats as column panels. A panel holds `columns` rows of W (columns of y)
// side by side and walks k group by group, 32 values at a time:
//
//   block   [columns] f16 scale, [columns] f16 minimum where the format has one
//           then its groups, one or eight:
//   group   [2] [columns] small scales, where the format is nested
//           8 bits  [8] [columns] word of 4 values: value i in byte i
//           4 bits  [4] [columns] word of 8 values, by `NibbleOrder`:
//                     halves    value i in the low, value i + 4 in the high nibble of byte i
//                     in_turn   value i in bits 4i … 4i + 3
//           5 bits  as 4 bits in halves, then [columns] word of the top bits: of value i in byte
//                   i % 4, bit i / 4
//           6 bits  [2] [3] [columns] words of 16 values: value i in the low bits of byte i % 4 of
//                   word i / 4; the last four in the top two bits of each, high bits first
//
// These are as many bytes as in the file, but for q4_k and q5_k: their small scales take 8 bits
// instead of 6 (2.8 % and 2.3 % more). Values are stored as in the file or with an offset of the
// kernel's choice, modulo 2^bits. Columns beyond n_out are zero.
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

  constexpr uint64_t header_bytes() const noexcept {
    return uint64_t{columns} * (quant_shape(format).has_minimum ? 4 : 2);
  }
  constexpr uint64_t small_bytes() const noexcept {
    return quant_shape(format).nested ? uint64_t{columns} * 2 : 0;
  }
  constexpr uint64_t group_bytes() const noexcept {
    return small_bytes() + uint64_t{columns} * quant_shape(format).bits * (kQuantGroupValues / 8);
  }
  constexpr uint64_t block_bytes() const noexcept {
    return header_bytes() + group_bytes() * quant_shape(format).groups();
  }
  constexpr uint64_t panel_bytes() const noexcept {
    return round_up(k_in / quant_shape(format).values * block_bytes(), 64);
  }
};

namespace detail {

// `count` bits of a value, from bit `from` on, in bits `at` … of a byte behind the small scales.
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
  if (order == NibbleOrder::in_turn) return {{{byte(k / 8, k % 8 / 2), k % 2 * 4, 0, 4}}, 1};
  const BitPiece low{byte(k / 8, b), k / 4 % 2 * 4, 0, 4};
  if (bits == 4) return {{low}, 1};
  return {{low, {byte(4, b), k / 4, 4, 1}}, 2};
}

// Adds to each byte, modulo 256.
constexpr uint64_t add_to_bytes(uint64_t bytes, uint32_t offset) noexcept {
  constexpr uint64_t kTop = 128 * kEachByte;
  const uint64_t each = (offset & 255) * kEachByte;
  return ((bytes & ~kTop) + (each & ~kTop)) ^ ((bytes ^ each) & kTop);
}

// Eight values below 16, one a byte, as nibbles in the order of a panel.
constexpr uint32_t nibble_word(uint64_t values, NibbleOrder order) noexcept {
  if (order == NibbleOrder::halves) return static_cast<uint32_t>(values | values >> 28);
  values = (values | values >> 4) & 0x00ff00ff00ff00ffu;
  values = (values | values >> 8) & 0x0000ffff0000ffffu;
  return static_cast<uint32_t>(values | values >> 16);
}

// The values of a group, one a byte and eight in turn, to its words `stride` bytes apart: as many
// as the format has bits. The layout is the one of bits_of_value, a word at a time; values pass
// through registers alone.
template <uint32_t bits>
class GroupWriter {
 public:
  GroupWriter(std::byte* to, uint64_t stride, NibbleOrder order) noexcept
      : to_(to), stride_(stride), order_(order) {}

  [[gnu::always_inline]] void add(uint32_t index, uint64_t values) noexcept {
    if constexpr (bits == 8) {
      put(2 * index, static_cast<uint32_t>(values));
      put(2 * index + 1, static_cast<uint32_t>(values >> 32));
    } else if constexpr (bits == 6) {
      if (index % 2 == 1) put_sixteen(index / 2, before_, values);
      before_ = values;
    } else {
      put(index, nibble_word(values & 15 * kEachByte, bits == 4 ? order_ : NibbleOrder::halves));
      if constexpr (bits == 5) {
        before_ |= (values >> 4 & kEachByte) << (2 * index);
        if (index == 3) put(4, static_cast<uint32_t>(before_ | before_ >> 31));
      }
    }
  }

 private:
  [[gnu::always_inline]] void put(uint32_t word, uint32_t value) const noexcept {
    std::memcpy(to_ + word * stride_, &value, 4);
  }
  [[gnu::always_inline]] void put_sixteen(uint32_t half, uint64_t low,
                                          uint64_t high) const noexcept {
    const auto last = static_cast<uint32_t>(high >> 32);
    const auto top = [last](uint32_t step) { return (last >> (4 - 2 * step) & 0x03030303u) << 6; };
    put(3 * half, static_cast<uint32_t>(low) | top(0));
    put(3 * half + 1, static_cast<uint32_t>(low >> 32) | top(1));
    put(3 * half + 2, static_cast<uint32_t>(high) | top(2));
  }

  std::byte* to_;
  uint64_t stride_;
  NibbleOrder order_;
  uint64_t before_ = 0;  // 6 bits: the eight before; 5 bits: the top bits so far
};

// `panels` is a copy with the format's constants in it, which no store to bytes can change.
template <class F>
[[gnu::always_inline]] inline void pack_quant_block(QuantPanels panels, uint32_t column,
                                                    const std::byte* block,
                                                    std::byte* to) noexcept {
  constexpr QuantShape kShape = F::kShape;
  panels.format = kShape.format;
  std::memcpy(to + 2 * column, block + kShape.scale_at, 2);
  if (kShape.has_minimum) {
    std::memcpy(to + 2 * (panels.columns + column), block + kShape.scale_at + 2, 2);
  }
  std::byte* group = to + panels.header_bytes();
  for (uint32_t g = 0; g < kShape.groups(); ++g, group += panels.group_bytes()) {
    if constexpr (kShape.nested) {
      group[column] = static_cast<std::byte>(F::small(block, g, 0));
      group[panels.columns + column] = static_cast<std::byte>(F::small(block, g, 1));
    }
    GroupWriter<kShape.bits> writer(group + panels.small_bytes() + 4 * column,
                                    uint64_t{4} * panels.columns, panels.order);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kQuantGroupValues / 8; ++i) {
      uint64_t values = F::eight(block, g * kQuantGroupValues + 8 * i);
      if (panels.offset != 0) {
        values = add_to_bytes(values, panels.offset) & ((1u << kShape.bits) - 1) * kEachByte;
      }
      writer.add(i, values);
    }
  }
}

// Scale and minimum of value k of a group.
struct QuantScale {
  float scale, minimum;
};
inline QuantScale scale_of_value(const QuantPanels& panels, const std::byte* block,
                                 const std::byte* group, uint32_t column, uint32_t k) noexcept {
  const QuantShape shape = quant_shape(panels.format);
  const std::byte* minimums = block + 2 * uint64_t{panels.columns};
  QuantScale out{f16_to_float(half_at(block + 2 * column)), -0.0f};
  if (shape.has_minimum) out.minimum = f16_to_float(half_at(minimums + 2 * column));
  if (!shape.nested) return out;
  const auto small = [&](uint32_t which) {
    return static_cast<float>(static_cast<int8_t>(group[which * panels.columns + column]));
  };
  out.scale *= small(shape.has_minimum ? 0 : k / 16);
  if (shape.has_minimum) out.minimum *= -small(1);
  return out;
}

}  // namespace detail

// Panel `panel` of `weight`, which check_quant_weight accepts.
inline void pack_quant_panel(const WeightView& weight, const QuantPanels& panels, uint32_t panel,
                             std::byte* to) noexcept {
  const TensorView& tensor = weight.parts[0];
  const uint32_t first = panel * panels.columns;
  const uint32_t columns =
      weight.n_out - first < panels.columns ? weight.n_out - first : panels.columns;
  const uint64_t bytes = panels.k_in / quant_shape(panels.format).values * panels.block_bytes();
  if (columns < panels.columns) std::memset(to, 0, bytes);
  std::memset(to + bytes, 0, panels.panel_bytes() - bytes);
  with_quant_format(panels.format, [&](auto format) {
    using F = decltype(format);
    // Some 256 bytes of a row at a time: whole cache lines are read, and what is written stays in
    // the first cache until all columns are there.
    constexpr uint64_t kRun = F::kShape.bytes < 128 ? 256 / F::kShape.bytes : 1;
    const uint64_t blocks = panels.k_in / F::kShape.values;
    for (uint64_t begin = 0; begin < blocks; begin += kRun) {
      const uint64_t end = begin + kRun < blocks ? begin + kRun : blocks;
      for (uint32_t c = 0; c < columns; ++c) {
        const std::byte* row = static_cast<const std::byte*>(tensor.data) +
                               weight.stored_row(first + c) * tensor.stride[0];
        for (uint64_t b = begin; b < end; ++b) {
          detail::pack_quant_block<F>(panels, c, row + b * F::kShape.bytes,
                                      to + b * panels.block_bytes());
        }
      }
    }
  });
}

// Row `row` of the packed panels as f32 [k_in].
inline void unpack_quant_row(const QuantPanels& panels, const std::byte* packed, uint32_t row,
                             float* out) noexcept {
  const QuantShape shape = quant_shape(panels.format);
  const uint32_t column = row % panels.columns;
  const std::byte* block = packed + row / panels.columns * panels.panel_bytes();
  for (uint32_t first = 0; first < panels.k_in; first += kQuantGroupValues) {
    if (first > 0 && first % shape.values == 0) block += panels.block_bytes();
    const std::byte* group = block + panels.header_bytes() +
                             first % shape.values / kQuantGroupValues * panels.group_bytes();
    const std::byte* values = group + panels.small_bytes();
    for (uint32_t k = 0; k < kQuantGroupValues; ++k) {
      const auto place = detail::bits_of_value(shape.bits, panels.order, panels.columns, column, k);
      uint32_t stored = 0;
      for (uint32_t i = 0; i < place.count; ++i) {
        const detail::BitPiece& piece = place.piece[i];
        const auto byte = static_cast<uint32_t>(values[piece.byte]);
        stored |= (byte >> piece.at & ((1u << piece.count) - 1)) << piece.from;
      }
      const uint32_t mask = (1u << shape.bits) - 1;
      auto whole = static_cast<int32_t>((stored - panels.offset) & mask);
      if (shape.bits == 8) whole = static_cast<int8_t>(whole);
      const auto scale = detail::scale_of_value(panels, block, group, column, k);
      out[first + k] = scale.scale * static_cast<float>(whole - static_cast<int32_t>(shape.zero)) +
                       scale.minimum;
    }
  }
}

}  // namespace tenon::sdk
