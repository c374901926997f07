// Weights in blocks of values with scales, as GGUF files store them (docs/formats/gguf.md shows the
// bits) or as checkpoints of other kinds are read (docs/formats/published-weights.md). A weight of
// such a format crosses the boundary as one u8 tensor [n_out, bytes of a row], the blocks of a row
// one after the other. A second part, i32 [k_in], is there where columns were reordered when the
// weight was quantised: column i of the blocks belongs to x[order[i]].
//
// A format is a struct with a QuantShape and what the shape cannot say: where eight values from a
// multiple of 8 on stand, and the small scales. Everything else follows, so a new format is one
// struct and one line in with_quant_format. What a value stands for:
//
//   value = scale · (stored - zero) + minimum      stored: `bits` bits; signed in q8_0
//   value = scale · table[stored]                  where the shape has a table
//   value = scale · e4m3(stored)                   where `float8` says so
//
// In nested formats scale and minimum are an f16 of the block times a small integer of a group
// (SmallScales), and the minimum is subtracted; else both stand there as they are. scale · stored
// is exact in f32. The formats of few bits stand in sdk/linear/quant_low_bits.h and, those whose
// values are points of a lattice, in sdk/linear/quant_lattices.h.
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
  static constexpr QuantShape kShape{.name = "q8_0", .format = QuantFormat::q8_0, .bytes = 34};
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::bytes_at(block, 2 + i);
  }
};

struct Q4Block {
  static constexpr QuantShape kShape{
      .name = "q4_0", .format = QuantFormat::q4_0, .bytes = 18, .bits = 4, .zero = 8};
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 2, 16, i);
  }
};

struct Q4MinBlock {
  static constexpr QuantShape kShape{
      .name = "q4_1", .format = QuantFormat::q4_1, .bytes = 20, .bits = 4, .has_minimum = true};
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 4, 16, i);
  }
};

struct Q5Block {
  static constexpr QuantShape kShape{
      .name = "q5_0", .format = QuantFormat::q5_0, .bytes = 22, .bits = 5, .zero = 16};
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 6, 16, i) | detail::bits_of(detail::byte_at(block + 2, i / 8))
                                                      << 4;
  }
};

struct Q5MinBlock {
  static constexpr QuantShape kShape{
      .name = "q5_1", .format = QuantFormat::q5_1, .bytes = 24, .bits = 5, .has_minimum = true};
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 8, 16, i) | detail::bits_of(detail::byte_at(block + 4, i / 8))
                                                      << 4;
  }
};

// Small scales are signed, one for each half of a group.
struct Q6SuperBlock {
  static constexpr QuantShape kShape{.name = "q6_k",
                                     .format = QuantFormat::q6_k,
                                     .values = 256,
                                     .bytes = 210,
                                     .bits = 6,
                                     .zero = 32,
                                     .scale_at = 208,
                                     .small = SmallScales::halves};
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    const uint64_t top = detail::bytes_at(block + 128, i / 128 * 32 + i % 32);
    return detail::nibbles_at(block, 64, i) | (top >> (i / 32 % 4 * 2) & 3 * detail::kEachByte)
                                                  << 4;
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t which) noexcept {
    return detail::byte_at(block + 192, 2 * group + which);
  }
};

// Six bits each for eight scales and eight minima in 12 bytes.
struct Q4SuperBlock {
  static constexpr QuantShape kShape{.name = "q4_k",
                                     .format = QuantFormat::q4_k,
                                     .values = 256,
                                     .bytes = 144,
                                     .bits = 4,
                                     .has_minimum = true,
                                     .small = SmallScales::minimum};
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 16, 32, i);
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t which) noexcept {
    const std::byte* packed = block + 4;
    const uint32_t first = detail::byte_at(packed, group % 4 + 4 * which);
    if (group < 4) return first & 63;
    return (detail::byte_at(packed, group + 4) >> (4 * which) & 15) | first >> 6 << 4;
  }
};

struct Q5SuperBlock {
  static constexpr QuantShape kShape{.name = "q5_k",
                                     .format = QuantFormat::q5_k,
                                     .values = 256,
                                     .bytes = 176,
                                     .bits = 5,
                                     .has_minimum = true,
                                     .small = SmallScales::minimum};
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    const uint64_t top = detail::bytes_at(block + 16, i % 32);
    return detail::nibbles_at(block + 48, 32, i) | (top >> (i / 32) & detail::kEachByte) << 4;
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t which) noexcept {
    return Q4SuperBlock::small(block, group, which);
  }
};

// The levels of 4-bit codes: OCP's FP4 E2M1 in halves (its scale counts twice), and bitsandbytes'
// NF4 and FP4; those of iq4_nl stand in sdk/linear/quant_low_bits.h.
inline constexpr float kMxFp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
inline constexpr float kNf4Levels[16] = {-1.0f,
                                         -0.6961928009986877f,
                                         -0.5250730514526367f,
                                         -0.39491748809814453f,
                                         -0.28444138169288635f,
                                         -0.18477343022823334f,
                                         -0.09105003625154495f,
                                         0.0f,
                                         0.07958029955625534f,
                                         0.16093020141124725f,
                                         0.24611230194568634f,
                                         0.33791524171829224f,
                                         0.44070982933044434f,
                                         0.5626170039176941f,
                                         0.7229568362236023f,
                                         1.0f};
inline constexpr float kFp4Levels[16] = {
    0.0f, 0.0052083333f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    0.0f, -0.0052083333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};

struct Iq4Block : Q4Block {
  static constexpr QuantShape kShape{.name = "iq4_nl",
                                     .format = QuantFormat::iq4_nl,
                                     .bytes = 18,
                                     .bits = 4,
                                     .table = kIq4Levels,
                                     .base = QuantFormat::iq4_nl};
};

// The scale is a power of two: its exponent plus 127 in one byte.
struct MxFp4Block {
  static constexpr QuantShape kShape{.name = "mxfp4",
                                     .format = QuantFormat::mxfp4,
                                     .bytes = 17,
                                     .bits = 4,
                                     .scale_type = ScaleType::bf16,
                                     .table = kMxFp4Levels,
                                     .base = QuantFormat::mxfp4};
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 1, 16, i);
  }
  // Half of it, as a bf16: what the levels are in.
  static uint16_t scale_bits(const std::byte* block) noexcept {
    const uint32_t exponent = detail::byte_at(block, 0);
    return static_cast<uint16_t>(exponent > 1 ? (exponent - 1) << 7 : 0x20u << exponent);
  }
};

// One f16 before nibbles as q4_0 has them, 32 a time.
struct TableNibbles {
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 2, 16, i);
  }
};
struct Nf4Block : TableNibbles {
  static constexpr QuantShape kShape{.name = "nf4_32",
                                     .format = QuantFormat::nf4_32,
                                     .bytes = 18,
                                     .bits = 4,
                                     .table = kNf4Levels,
                                     .base = QuantFormat::nf4_32};
};
struct Nf4LongBlock : TableNibbles {
  static constexpr QuantShape kShape{.name = "nf4_64",
                                     .format = QuantFormat::nf4_64,
                                     .values = 64,
                                     .bytes = 34,
                                     .bits = 4,
                                     .table = kNf4Levels,
                                     .base = QuantFormat::nf4_32};
};
struct Fp4Block : TableNibbles {
  static constexpr QuantShape kShape{.name = "fp4_32",
                                     .format = QuantFormat::fp4_32,
                                     .bytes = 18,
                                     .bits = 4,
                                     .table = kFp4Levels,
                                     .base = QuantFormat::fp4_32};
};
struct Fp4LongBlock : TableNibbles {
  static constexpr QuantShape kShape{.name = "fp4_64",
                                     .format = QuantFormat::fp4_64,
                                     .values = 64,
                                     .bytes = 34,
                                     .bits = 4,
                                     .table = kFp4Levels,
                                     .base = QuantFormat::fp4_32};
};

namespace detail {

constexpr std::string_view grouped_name(uint32_t bits, uint32_t values) noexcept {
  constexpr std::string_view kNames[4][3] = {{"u2_32", "u2_64", "u2_128"},
                                             {"u3_32", "u3_64", "u3_128"},
                                             {"u4_32", "u4_64", "u4_128"},
                                             {"u8_32", "u8_64", "u8_128"}};
  return kNames[bits == 8 ? 3 : bits - 2][values / 64];
}
constexpr QuantFormat grouped_format(uint32_t bits, uint32_t values) noexcept {
  const auto first = static_cast<uint32_t>(QuantFormat::u2_32) + (bits == 8 ? 9 : 3 * (bits - 2));
  return static_cast<QuantFormat>(first + values / 64);
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
  static constexpr QuantShape kShape{.name = detail::grouped_name(kBits, kValues),
                                     .format = detail::grouped_format(kBits, kValues),
                                     .values = kValues,
                                     .bytes = 4 + kValues * kBits / 8,
                                     .bits = kBits,
                                     .has_zero = true,
                                     .base = detail::grouped_format(kBits, 32)};
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
  static constexpr QuantShape kShape{
      .name = kValues == 32 ? "f8_32" : (kValues == 64 ? "f8_64" : "f8_128"),
      .format = static_cast<QuantFormat>(static_cast<uint32_t>(QuantFormat::f8_32) + kValues / 64),
      .values = kValues,
      .bytes = 4 + kValues,
      .bits = 8,
      .scale_type = ScaleType::f32,
      .float8 = true,
      .base = QuantFormat::f8_32};
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::bytes_at(block + 4, i);
  }
};

// Calls f with the struct of a format.
template <typename F>
constexpr decltype(auto) with_quant_format(QuantFormat format, F&& f) {
  switch (format) {
    case QuantFormat::q4_0:
      return f(Q4Block());
    case QuantFormat::q4_1:
      return f(Q4MinBlock());
    case QuantFormat::q5_0:
      return f(Q5Block());
    case QuantFormat::q5_1:
      return f(Q5MinBlock());
    case QuantFormat::q6_k:
      return f(Q6SuperBlock());
    case QuantFormat::q4_k:
      return f(Q4SuperBlock());
    case QuantFormat::q5_k:
      return f(Q5SuperBlock());
    case QuantFormat::iq4_nl:
      return f(Iq4Block());
    case QuantFormat::mxfp4:
      return f(MxFp4Block());
    case QuantFormat::nf4_32:
      return f(Nf4Block());
    case QuantFormat::nf4_64:
      return f(Nf4LongBlock());
    case QuantFormat::fp4_32:
      return f(Fp4Block());
    case QuantFormat::fp4_64:
      return f(Fp4LongBlock());
    case QuantFormat::u2_32:
      return f(GroupedBlock<2, 32>());
    case QuantFormat::u2_64:
      return f(GroupedBlock<2, 64>());
    case QuantFormat::u2_128:
      return f(GroupedBlock<2, 128>());
    case QuantFormat::u3_32:
      return f(GroupedBlock<3, 32>());
    case QuantFormat::u3_64:
      return f(GroupedBlock<3, 64>());
    case QuantFormat::u3_128:
      return f(GroupedBlock<3, 128>());
    case QuantFormat::u4_32:
      return f(GroupedBlock<4, 32>());
    case QuantFormat::u4_64:
      return f(GroupedBlock<4, 64>());
    case QuantFormat::u4_128:
      return f(GroupedBlock<4, 128>());
    case QuantFormat::u8_32:
      return f(GroupedBlock<8, 32>());
    case QuantFormat::u8_64:
      return f(GroupedBlock<8, 64>());
    case QuantFormat::u8_128:
      return f(GroupedBlock<8, 128>());
    case QuantFormat::f8_32:
      return f(Float8Block<32>());
    case QuantFormat::f8_64:
      return f(Float8Block<64>());
    case QuantFormat::f8_128:
      return f(Float8Block<128>());
    case QuantFormat::q2_k:
      return f(Q2SuperBlock());
    case QuantFormat::q3_k:
      return f(Q3SuperBlock());
    case QuantFormat::iq4_xs:
      return f(Iq4SuperBlock());
    case QuantFormat::tq1_0:
      return f(Ternary5Block());
    case QuantFormat::tq2_0:
      return f(TernaryBlock());
    case QuantFormat::iq2_xxs:
      return f(Iq2XxsBlock());
    case QuantFormat::iq2_xs:
      return f(Iq2XsBlock());
    case QuantFormat::iq2_s:
      return f(Iq2SBlock());
    case QuantFormat::iq3_xxs:
      return f(Iq3XxsBlock());
    case QuantFormat::iq3_s:
      return f(Iq3SBlock());
    case QuantFormat::iq1_s:
      return f(Iq1SBlock());
    case QuantFormat::iq1_m:
      return f(Iq1MBlock());
    case QuantFormat::q8_0:
      break;
  }
  return f(Q8Block());
}

constexpr QuantShape quant_shape(QuantFormat format) noexcept {
  return with_quant_format(format, [](auto block) { return block.kShape; });
}

// What panels hold in place of a format.
constexpr QuantFormat panel_format(QuantFormat format) noexcept {
  const QuantFormat base = quant_shape(format).base;
  return base == QuantFormat::q8_0 ? format : base;
}

constexpr bool parse_quant_format(std::string_view name, QuantFormat& format) noexcept {
  for (uint32_t i = 0; i < kQuantFormats; ++i) {
    if (quant_shape(static_cast<QuantFormat>(i)).name != name) continue;
    format = static_cast<QuantFormat>(i);
    return true;
  }
  return false;
}

// "q8_0, q4_0, … and q5_k", for messages; those of `skip_float8` without FP8.
std::string quant_formats_text(bool skip_float8 = false);

// e4m3 as f32, without its two NaNs, which count as 480: readers of checkpoints refuse them.
[[gnu::always_inline]] inline float float8_value(uint32_t byte) noexcept {
  const uint32_t bits = (byte & 0x7f) << 20 | (byte & 0x80) << 24;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value * 0x1p120f;
}

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
