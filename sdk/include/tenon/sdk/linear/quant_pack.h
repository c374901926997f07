// Packs weights of blocks into panels (sdk/linear/quant_panels.h shows the layout), four columns at
// a time: sixteen bytes of each of four rows become, by one transposition, four words of each of
// four columns, which stand side by side in a panel. What a format does to a group is then done to
// whole vectors, whatever its bits are.
#pragma once

#include <tenon/sdk/linear/quant_panels.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tenon::sdk {
namespace detail {

// A word of each of four columns, and two eights of values.
typedef uint32_t FourWords __attribute__((vector_size(16)));
typedef uint64_t TwoEights __attribute__((vector_size(16)));

// Distances in a panel. Loops have a copy of it, which no store of bytes can change.
struct PackLayout {
  uint32_t columns, header_groups, offset;
  NibbleOrder order;
  uint64_t scales_bytes, header_bytes, small_bytes, group_bytes;

  explicit PackLayout(const QuantPanels& panels) noexcept
      : columns(panels.columns),
        header_groups(panels.block_groups()),
        offset(panels.offset),
        order(panels.order),
        scales_bytes(panels.scales_bytes()),
        header_bytes(panels.header_bytes()),
        small_bytes(panels.small_bytes()),
        group_bytes(panels.group_bytes()) {}
};

// The 32 values of a group: words[j] has the values 4j … 4j + 3, one a byte, of one column or of
// four.
template <class F>
[[gnu::always_inline]] inline void read_group(const std::byte* const (&blocks)[1], uint32_t first,
                                              uint32_t (&words)[8]) noexcept {
#pragma GCC unroll 4
  for (uint32_t i = 0; i < 4; ++i) {
    const uint64_t values = F::eight(blocks[0], first + 8 * i);
    words[2 * i] = static_cast<uint32_t>(values);
    words[2 * i + 1] = static_cast<uint32_t>(values >> 32);
  }
}
template <class F>
[[gnu::always_inline]] inline void read_group(const std::byte* const (&blocks)[4], uint32_t first,
                                              FourWords (&words)[8]) noexcept {
#pragma GCC unroll 2
  for (uint32_t i = 0; i < 2; ++i) {
    FourWords rows[4];
#pragma GCC unroll 4
    for (uint32_t c = 0; c < 4; ++c) {
      const uint32_t at = first + 16 * i;
      if constexpr (requires { F::template eight<TwoEights>(blocks[c], at); }) {
        rows[c] = (FourWords)F::template eight<TwoEights>(blocks[c], at);
      } else {
        rows[c] = (FourWords)TwoEights{F::eight(blocks[c], at), F::eight(blocks[c], at + 8)};
      }
    }
    const FourWords low01 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
    const FourWords low23 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
    const FourWords high01 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
    const FourWords high23 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
    words[4 * i] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    words[4 * i + 1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    words[4 * i + 2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    words[4 * i + 3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
  }
}

// Adds to each byte, modulo 256.
template <class Word>
[[gnu::always_inline]] inline Word add_to_bytes(Word bytes, uint32_t offset) noexcept {
  constexpr uint32_t kTop = 0x80808080u;
  const uint32_t each = (offset & 255) * 0x01010101u;
  return ((bytes & ~kTop) + (each & ~kTop)) ^ ((bytes ^ each) & kTop);
}

// Four values, one a byte, as the low half of a word of nibbles in turn.
template <class Word>
[[gnu::always_inline]] inline Word nibbles_in_turn(Word values) noexcept {
  const Word pairs = values | values >> 4;
  return (pairs & 0xffu) | (pairs >> 8 & 0xff00u);
}

// The words of a group as the panel keeps them, `stride` bytes apart: as many as the format has
// bits. The layout is the one of bits_of_value. `words`: values of `bits` bits.
template <uint32_t bits, class Word>
[[gnu::always_inline]] inline void write_group(const Word (&words)[8], std::byte* to,
                                               uint64_t stride, NibbleOrder order) noexcept {
  const auto put = [to, stride](uint32_t at, Word word) {
    __builtin_memcpy(to + at * stride, &word, sizeof(word));
  };
  const auto bit = [&words](uint32_t word, uint32_t which) {
    return words[word] >> which & 0x01010101u;
  };
  if constexpr (bits == 8) {
#pragma GCC unroll 8
    for (uint32_t j = 0; j < 8; ++j) put(j, words[j]);
  } else if constexpr (bits == 2) {
#pragma GCC unroll 2
    for (uint32_t j = 0; j < 2; ++j) {
      const Word* four = words + 4 * j;
      put(j, four[0] | four[1] << 2 | four[2] << 4 | four[3] << 6);
    }
  } else if constexpr (bits == 3) {
#pragma GCC unroll 3
    for (uint32_t j = 0; j < 3; ++j) {
      put(j, words[2 * j] | words[2 * j + 1] << 4 | bit(6, j) << 3 | bit(7, j) << 7);
    }
  } else if constexpr (bits == 6) {
#pragma GCC unroll 6
    for (uint32_t j = 0; j < 6; ++j) {
      const uint32_t step = j % 3, half = j / 3 * 4;
      put(j, words[half + step] | (words[half + 3] >> (4 - 2 * step) & 0x03030303u) << 6);
    }
  } else {
    const auto low = [&words](uint32_t j) { return bits == 4 ? words[j] : words[j] & 0x0f0f0f0fu; };
#pragma GCC unroll 4
    for (uint32_t j = 0; j < 4; ++j) {
      if (bits == 4 && order == NibbleOrder::in_turn) {
        put(j, nibbles_in_turn(low(2 * j)) | nibbles_in_turn(low(2 * j + 1)) << 16);
      } else {
        put(j, low(2 * j) | low(2 * j + 1) << 4);
      }
    }
    if constexpr (bits == 5) {
      Word top = bit(0, 4);
#pragma GCC unroll 7
      for (uint32_t j = 1; j < 8; ++j) top |= bit(j, 4) << j;
      put(4, top);
    }
  }
}

// Where a block's scales go in the header at `to`.
template <class F>
[[gnu::always_inline]] inline void put_header(const PackLayout& layout, uint32_t column,
                                              const std::byte* block, std::byte* to) noexcept {
  constexpr QuantShape kShape = F::kShape;
  constexpr uint32_t kScale = scale_bytes(kShape.scale_type);
  if constexpr (requires { F::scale_bits(block); }) {
    const uint16_t bits = F::scale_bits(block);
    std::memcpy(to + kScale * column, &bits, kScale);
  } else {
    std::memcpy(to + kScale * column, block + kShape.scale_at, kScale);
  }
  if constexpr (kShape.has_second()) {
    std::memcpy(to + layout.scales_bytes + 2 * column, block + kShape.scale_at + kScale, 2);
  }
}

// A block of each of `count` columns from `column` on: four, with Word = FourWords, or one.
template <class F, class Word, uint32_t count>
[[gnu::always_inline]] inline void pack_quant_blocks(PackLayout layout, uint32_t column,
                                                     const std::byte* const (&blocks)[count],
                                                     std::byte* to) noexcept {
  static_assert(sizeof(Word) == 4 * count);
  constexpr QuantShape kShape = F::kShape;
  constexpr uint32_t kSmall = small_bytes_of(kShape.small);
  constexpr uint32_t kMask = ((1u << kShape.bits) - 1) * 0x01010101u;
  std::byte *group = to, *small = to;
  uint32_t left = 0;  // groups that share the header
  for (uint32_t g = 0; g < kShape.groups(); ++g, --left, group += layout.group_bytes) {
    if (left == 0) {
      left = layout.header_groups;
#pragma GCC unroll 4
      for (uint32_t c = 0; c < count; ++c) put_header<F>(layout, column + c, blocks[c], group);
      small = group + layout.header_bytes - (kSmall == 1 ? uint64_t{left} * layout.columns : 0);
      group += layout.header_bytes;
    }
    if constexpr (kSmall > 0) {
      std::byte* at = (kSmall == 1 ? small : group) + column;
#pragma GCC unroll 2
      for (uint32_t i = 0; i < kSmall; ++i) {
#pragma GCC unroll 4
        for (uint32_t c = 0; c < count; ++c) {
          at[i * layout.columns + c] = static_cast<std::byte>(F::small(blocks[c], g, i));
        }
      }
      small += layout.columns;
    }
    Word words[8];
    read_group<F>(blocks, g * kQuantGroupValues, words);
    if (layout.offset != 0) {
#pragma GCC unroll 8
      for (Word& word : words) word = add_to_bytes(word, layout.offset) & kMask;
    } else if constexpr (kShape.bits < 4) {
#pragma GCC unroll 8
      for (Word& word : words) word &= kMask;
    }
    write_group<kShape.bits>(words, group + layout.small_bytes + 4 * column,
                             uint64_t{4} * layout.columns, layout.order);
  }
}

// `blocks` blocks of each of `count` rows, which become the columns from `column` on.
template <class F, class Word, uint32_t count>
void pack_quant_columns(const PackLayout& layout, uint32_t column,
                        const std::byte* const (&rows)[count], uint64_t blocks,
                        uint64_t packed_bytes, std::byte* to) noexcept {
  for (uint64_t b = 0; b < blocks; ++b) {
    const std::byte* block[count];
#pragma GCC unroll 4
    for (uint32_t c = 0; c < count; ++c) block[c] = rows[c] + b * F::kShape.bytes;
    pack_quant_blocks<F, Word, count>(layout, column, block, to + b * packed_bytes);
  }
}

// Panel `panel` of a weight whose blocks are F's; columns beyond n_out are zero.
template <class F>
void pack_panel_of(const WeightView& weight, const QuantPanels& panels, uint32_t panel,
                   std::byte* to) noexcept {
  const TensorView& tensor = weight.parts[0];
  const PackLayout layout(panels);
  const uint32_t first = panel * panels.columns;
  const uint32_t columns = std::min(weight.n_out - first, panels.columns);
  const uint64_t bytes = panels.groups_bytes(panels.k_in / kQuantGroupValues);
  if (columns < panels.columns) std::memset(to, 0, bytes);
  std::memset(to + bytes, 0, panels.panel_bytes() - bytes);
  const uint64_t packed_bytes = panels.groups_bytes(F::kShape.groups());
  // Some 256 bytes of a row at a time: whole cache lines are read, and what is written stays in the
  // first cache until all columns are there.
  constexpr uint64_t kRun = F::kShape.bytes < 128 ? 256 / F::kShape.bytes : 1;
  constexpr uint64_t kRunBytes = kRun * F::kShape.bytes;
  const uint64_t blocks = panels.k_in / F::kShape.values;
  for (uint64_t begin = 0; begin < blocks; begin += kRun) {
    const uint64_t run = std::min(kRun, blocks - begin);
    const auto row = [&](uint32_t column) {
      return static_cast<const std::byte*>(tensor.data) +
             weight.stored_row(first + column) * tensor.stride[0] + begin * F::kShape.bytes;
    };
    std::byte* at = to + begin * packed_bytes;
    uint32_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      const std::byte* const rows[4] = {row(c), row(c + 1), row(c + 2), row(c + 3)};
      // More rows are read at once than processors fetch by themselves.
      for (const std::byte* each : rows) {
        for (uint64_t b = 0; b < kRunBytes; b += 64) __builtin_prefetch(each + kRunBytes + b);
      }
      pack_quant_columns<F, FourWords>(layout, c, rows, run, packed_bytes, at);
    }
    for (; c < columns; ++c) {
      const std::byte* const rows[1] = {row(c)};
      pack_quant_columns<F, uint32_t>(layout, c, rows, run, packed_bytes, at);
    }
  }
}

}  // namespace detail

// Panel `panel` of `weight`, which check_quant_weight accepts.
inline void pack_quant_panel(const WeightView& weight, const QuantPanels& panels, uint32_t panel,
                             std::byte* to) noexcept {
  // The panel's format may be the base of the weight's.
  QuantFormat stored = panels.format;
  parse_quant_format(weight.format, stored);
  with_quant_format(stored, [&](auto format) {
    detail::pack_panel_of<decltype(format)>(weight, panels, panel, to);
  });
}

}  // namespace tenon::sdk
