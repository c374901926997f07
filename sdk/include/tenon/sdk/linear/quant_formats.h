// Weights in blocks of values with scales, as GGUF files store them (docs/formats/gguf.md shows the
// bits) or as checkpoints of other kinds are read (docs/formats/published-weights.md). A weight of
// such a format crosses the boundary as one u8 tensor [n_out, bytes of a row], the blocks of a row
// one after the other. A second part, i32 [k_in], is there where columns were reordered when the
// weight was quantised: column i of the blocks belongs to x[order[i]].
//
// A format is a struct with a QuantShape and what the shape cannot say: where eight values from a
// multiple of 8 on stand, one a byte of a word, and the small scales. Where 16 values from a
// multiple of 16 on are found in the same way, `eight` is a template: V = uint64_t, or a vector of
// two. Everything else follows, so a new format is a row of <tenon/formats/weight_formats.def> and
// a struct. What a value stands for:
//
//   value = scale · (stored - zero) + minimum      stored: `bits` bits; signed in q8_0
//   value = scale · table[stored]                  where the shape has a table
//   value = scale · e4m3(stored)                   where the row says floats
//
// In nested formats scale and minimum are a number of the block times a small one of a group
// (SmallScales), and the minimum is subtracted; else both stand there as they are. scale · stored
// is exact in f32, but in nvfp4, where either product rounds. The formats of few bits stand in
// sdk/linear/quant_low_bits.h and, those whose values are points of a lattice, in
// sdk/linear/quant_lattices.h.
#pragma once

#include <tenon/sdk/linear/quant_lattices.h>
#include <tenon/sdk/linear/quant_low_bits.h>
#include <tenon/sdk/linear/quant_shape.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::sdk {

struct Q8Block {
  static constexpr QuantShape kShape = shape_of(QuantFormat::q8_0);
  template <class V = uint64_t>
  static V eight(const std::byte* block, uint32_t i) noexcept {
    return detail::bytes_at<V>(block, 2 + i);
  }
};

struct Q4Block {
  static constexpr QuantShape kShape = shape_of(QuantFormat::q4_0, {.bits = 4, .zero = 8});
  template <class V = uint64_t>
  static V eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at<V>(block + 2, 16, i);
  }
};

struct Q4MinBlock {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::q4_1, {.bits = 4, .has_minimum = true});
  template <class V = uint64_t>
  static V eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at<V>(block + 4, 16, i);
  }
};

struct Q5Block {
  static constexpr QuantShape kShape = shape_of(QuantFormat::q5_0, {.bits = 5, .zero = 16});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 6, 16, i) | detail::bits_of(detail::byte_at(block + 2, i / 8))
                                                      << 4;
  }
};

struct Q5MinBlock {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::q5_1, {.bits = 5, .has_minimum = true});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 8, 16, i) | detail::bits_of(detail::byte_at(block + 4, i / 8))
                                                      << 4;
  }
};

// Small scales are signed, one for each half of a group.
struct Q6SuperBlock {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::q6_k, {.bits = 6, .zero = 32, .small = SmallScales::halves});
  template <class V = uint64_t>
  static V eight(const std::byte* block, uint32_t i) noexcept {
    const V top = detail::bytes_at<V>(block + 128, i / 128 * 32 + i % 32);
    return detail::nibbles_at<V>(block, 64, i) | (top >> (i / 32 % 4 * 2) & 3 * detail::kEachByte)
                                                     << 4;
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t which) noexcept {
    return detail::byte_at(block + 192, 2 * group + which);
  }
};

// Six bits each for eight scales and eight minima in 12 bytes.
struct Q4SuperBlock {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::q4_k, {.bits = 4, .has_minimum = true, .small = SmallScales::minimum});
  template <class V = uint64_t>
  static V eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at<V>(block + 16, 32, i);
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t which) noexcept {
    const std::byte* packed = block + 4;
    const uint32_t first = detail::byte_at(packed, group % 4 + 4 * which);
    if (group < 4) return first & 63;
    return (detail::byte_at(packed, group + 4) >> (4 * which) & 15) | first >> 6 << 4;
  }
};

struct Q5SuperBlock {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::q5_k, {.bits = 5, .has_minimum = true, .small = SmallScales::minimum});
  template <class V = uint64_t>
  static V eight(const std::byte* block, uint32_t i) noexcept {
    const V top = detail::bytes_at<V>(block + 16, i % 32);
    return detail::nibbles_at<V>(block + 48, 32, i) | (top >> (i / 32) & detail::kEachByte) << 4;
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t which) noexcept {
    return Q4SuperBlock::small(block, group, which);
  }
};

struct Iq4Block : Q4Block {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::iq4_nl, {.bits = 4, .table = kIq4Levels});
};

// The scale is a power of two: its exponent plus 127 in one byte.
struct MxFp4Block {
  static constexpr QuantShape kShape = shape_of(
      QuantFormat::mxfp4, {.bits = 4, .scale_type = ScaleType::bf16, .table = kE2M1Levels});
  template <class V = uint64_t>
  static V eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at<V>(block + 1, 16, i);
  }
  // Half of it, as a bf16: what the levels are in.
  static uint16_t scale_bits(const std::byte* block) noexcept {
    const uint32_t exponent = detail::byte_at(block, 0);
    return static_cast<uint16_t>(exponent > 1 ? (exponent - 1) << 7 : 0x20u << exponent);
  }
};

// | f32 scale | 4 x E4M3, each the scale of 16 values | nibbles as q4_0 has them, 32 a time |.
// Levels are in halves.
struct NvFp4Block {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::nvfp4_64, {.bits = 4,
                                       .small = SmallScales::float8_halves,
                                       .unit = 0.5f,
                                       .scale_type = ScaleType::f32,
                                       .table = kE2M1Levels});
  template <class V = uint64_t>
  static V eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at<V>(block + 8, 16, i);
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t which) noexcept {
    return detail::byte_at(block, 4 + 2 * group + which);
  }
};

// One f16 before nibbles as q4_0 has them, 32 a time.
struct TableNibbles {
  template <class V = uint64_t>
  static V eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at<V>(block + 2, 16, i);
  }
};
struct Nf4Block : TableNibbles {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::nf4_32, {.bits = 4, .table = kNf4Levels});
};
struct Nf4LongBlock : TableNibbles {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::nf4_64, {.bits = 4, .table = kNf4Levels});
};
struct Fp4Block : TableNibbles {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::fp4_32, {.bits = 4, .table = kFp4Levels});
};
struct Fp4LongBlock : TableNibbles {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::fp4_64, {.bits = 4, .table = kFp4Levels});
};

namespace detail {

// Of a family of formats in rows of 32, 64 and 128 values, one after the other.
constexpr QuantFormat of_length(QuantFormat first, uint32_t values) noexcept {
  return static_cast<QuantFormat>(static_cast<uint32_t>(first) + values / 64);
}
constexpr QuantFormat grouped_format(uint32_t bits, uint32_t values) noexcept {
  constexpr QuantFormat kFirst[] = {QuantFormat::u2_32, QuantFormat::u3_32, QuantFormat::u4_32};
  return of_length(bits == 8 ? QuantFormat::u8_32 : kFirst[bits - 2], values);
}

}  // namespace detail

// Codes with a scale and a zero point for 32, 64 or 128 of them:
//
//   f16 scale | f16 zero | the codes, 32 a time, in 4 · bits bytes:
//     8 bits  value i in byte i
//     4 bits  value i in the low nibble of byte i, value i + 16 in the high one
//     2 bits  value i in bits 2 · (i / 8) … of byte i % 8
//     3 bits  as 2 bits, then bit 2 of value i in bit i % 8 of byte i / 8
template <uint32_t kBits, uint32_t kValues>
struct GroupedBlock {
  static constexpr QuantShape kShape =
      shape_of(detail::grouped_format(kBits, kValues), {.bits = kBits, .has_zero = true});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    using detail::kEachByte;
    const std::byte* codes = block + 4 + i / 32 * 4 * kBits;
    i %= 32;
    if constexpr (kBits == 8) return detail::bytes_at(codes, i);
    if constexpr (kBits == 4) return detail::nibbles_at(codes, 16, i);
    const uint64_t low = detail::bytes_at(codes, 0) >> (i / 8 * 2) & 3 * kEachByte;
    if constexpr (kBits == 2) return low;
    return low | detail::bits_of(detail::byte_at(codes, 8 + i / 8)) << 2;
  }
};

// E4M3 with an f32 scale for 32, 64 or 128 of them, in front.
template <uint32_t kValues>
struct Float8Block {
  static constexpr QuantShape kShape = shape_of(detail::of_length(QuantFormat::f8_32, kValues),
                                                {.bits = 8, .scale_type = ScaleType::f32});
  template <class V = uint64_t>
  static V eight(const std::byte* block, uint32_t i) noexcept {
    return detail::bytes_at<V>(block + 4, i);
  }
};

// Calls f with the struct of a format.
template <typename F>
constexpr decltype(auto) with_quant_format(QuantFormat format, F&& f) {
  switch (format) {
#define TENON_FORMAT(name, values, bytes, scales, at, codes, base, ...) \
  case QuantFormat::name:                                               \
    return f(__VA_ARGS__());
#include <tenon/formats/weight_formats.def>
  }
  __builtin_unreachable();
}

// By QuantFormat: a table, because whoever packs or unpacks asks for each group.
inline constexpr QuantShape kQuantShapes[] = {
#define TENON_FORMAT(name, values, bytes, scales, at, codes, base, ...) __VA_ARGS__::kShape,
#include <tenon/formats/weight_formats.def>
};
constexpr const QuantShape& quant_shape(QuantFormat format) noexcept {
  return kQuantShapes[static_cast<uint32_t>(format)];
}

// What panels hold in place of a format.
constexpr QuantFormat panel_format(QuantFormat format) noexcept {
  return kQuantRows[static_cast<uint32_t>(format)].base;
}

constexpr bool parse_quant_format(std::string_view name, QuantFormat& format) noexcept {
  for (uint32_t i = 0; i < kQuantFormats; ++i) {
    if (kQuantRows[i].name != name) continue;
    format = static_cast<QuantFormat>(i);
    return true;
  }
  return false;
}

// "q8_0, q4_0, … and q5_k", for messages; those of `skip_float8` without FP8.
std::string quant_formats_text(bool skip_float8 = false);

// An f16 at any address, as its bits.
[[gnu::always_inline]] inline uint16_t half_at(const std::byte* from) noexcept {
  uint16_t bits;
  __builtin_memcpy(&bits, from, 2);
  return bits;
}

// Null when `weight` is in a quantised format and whole; else why plugin `id` refuses it, which may
// take no FP8.
Status check_quant_weight(const WeightView& weight, std::string_view id, bool skip_float8 = false);

// The order of a weight's columns, null where they stand in turn; for weights that were checked.
inline const int32_t* column_order(const WeightView& weight) noexcept {
  return weight.parts.size() < 2 ? nullptr : static_cast<const int32_t*>(weight.parts[1].data);
}
// A word that tells orders apart, never 0; 0 for columns in turn.
uint64_t column_order_key(const WeightView& weight) noexcept;

}  // namespace tenon::sdk
