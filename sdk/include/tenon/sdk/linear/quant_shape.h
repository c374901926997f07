// What a format of quantised weights is, in numbers (sdk/linear/quant_formats.h has the formats),
// and how bits are taken out of bytes.
#pragma once

#include <tenon/formats/block_scales.h>
#include <tenon/linear.h>
#include <tenon/sdk/half.h>
#include <tenon/sdk/linear/panels.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::sdk {

inline constexpr uint32_t kQuantGroupValues =
    32;  // values of a group: each format stores whole groups

// The rows of <tenon/formats/weight_formats.def>, in their order.
enum class QuantFormat : uint32_t {
#define TENON_FORMAT(name, ...) name,
#include <tenon/formats/weight_formats.def>
};

struct QuantRow {
  std::string_view name;
  uint32_t values, bytes;  // of a block
  uint32_t scale_at;
  BlockCodes codes;
  QuantFormat base;
};
inline constexpr QuantRow kQuantRows[] = {
#define TENON_FORMAT(name, values, bytes, scales, at, codes, base, ...) \
  {#name, values, bytes, at, BlockCodes::codes, QuantFormat::base},
#include <tenon/formats/weight_formats.def>
};
inline constexpr uint32_t kQuantFormats = sizeof(kQuantRows) / sizeof(QuantRow);

// How a panel keeps the scale of a block.
enum class ScaleType : uint8_t { f16, bf16, f32 };
constexpr uint32_t scale_bytes(ScaleType type) noexcept {
  return type == ScaleType::f32 ? 4 : 2;
}

// The small numbers that stand with a group, a byte each, and what multiplies the block's scale.
enum class SmallScales : uint8_t {
  none,
  minimum,        // a scale; how often the minimum is subtracted
  halves,         // the scale of either half, signed
  half_minima,    // of either half: the scale in the low nibble, the minimum in the high one
  whole,          // one scale, signed
  odd_halves,     // one byte, a nibble n for either half: the scale is 2n + 1
  shifted,        // one scale; of its sign is an eighth of it that is added to every value
  float8_halves,  // the scale of either half, E4M3
  shifted_halves  // of either half: the scale in the low nibble, then a bit for each of its eights:
                  // whether an eighth of the scale is added to a value, else it is subtracted
};
constexpr uint32_t small_bytes_of(SmallScales small) noexcept {
  if (small == SmallScales::none) return 0;
  const bool one = small == SmallScales::whole || small == SmallScales::odd_halves ||
                   small == SmallScales::shifted;
  return one ? 1 : 2;
}

struct QuantShape {
  uint32_t bits = 8;         // of a value
  uint32_t zero = 0;         // the stored value that stands for nothing but the minimum
  bool has_minimum = false;  // its f16 comes after the scale's
  SmallScales small = SmallScales::none;
  float unit = 1;  // what one of the stored values stands for, before scales
  ScaleType scale_type = ScaleType::f16;
  bool has_zero = false;         // the f16 after the scale is subtracted from a stored value
  const float* table = nullptr;  // [16], of which 2^bits are used

  // What the format's row says (shape_of).
  std::string_view name = {};
  QuantFormat format = QuantFormat::q8_0;
  uint32_t values = 32;  // of a block
  uint32_t bytes = 0;    // of a block
  uint32_t scale_at = 0;
  bool float8 = false;
  // Formats that differ in the length of blocks alone share what multiplies them.
  QuantFormat base = QuantFormat::q8_0;

  constexpr uint32_t groups() const noexcept { return values / kQuantGroupValues; }
  constexpr bool nested() const noexcept { return small != SmallScales::none; }
  // Scales of a group: one, or one for each half.
  constexpr uint32_t scales() const noexcept {
    const bool two = small == SmallScales::halves || small == SmallScales::half_minima ||
                     small == SmallScales::odd_halves || small == SmallScales::float8_halves ||
                     small == SmallScales::shifted_halves;
    return two ? 2 : 1;
  }
  // Whether an f16 of its own comes after the scale.
  constexpr bool has_second() const noexcept { return has_minimum || has_zero; }
};

// The row of a format, and what it does not say.
constexpr QuantShape shape_of(QuantFormat format, QuantShape shape = {}) noexcept {
  const QuantRow& row = kQuantRows[static_cast<uint32_t>(format)];
  shape.name = row.name;
  shape.format = format;
  shape.values = row.values;
  shape.bytes = row.bytes;
  shape.scale_at = row.scale_at;
  shape.float8 = row.codes == BlockCodes::floats;
  shape.base = row.base;
  return shape;
}

// e4m3 as f32, without its two NaNs, which count as 480: readers of checkpoints refuse them.
[[gnu::always_inline]] constexpr float float8_value(uint32_t byte) noexcept {
  return __builtin_bit_cast(float, (byte & 0x7f) << 20 | (byte & 0x80) << 24) * 0x1p120f;
}

// Scale and minimum of a value.
struct QuantScale {
  float scale, minimum;
};
// Those of a value of half `half` of a group: those of its block, and the group's small scales.
constexpr QuantScale times_small(const QuantShape& shape, QuantScale block,
                                 const uint8_t (&small)[2], uint32_t half) noexcept {
  const auto integer = [&](uint32_t which) {
    return static_cast<float>(static_cast<int8_t>(small[which]));
  };
  const auto nibble = [&](uint32_t which, uint32_t high) {
    return static_cast<float>(small[which] >> (4 * high) & 15);
  };
  switch (shape.small) {
    case SmallScales::none:
      break;
    case SmallScales::minimum:
      return {block.scale * integer(0), block.minimum * -integer(1)};
    case SmallScales::halves:
      return {block.scale * integer(half), block.minimum};
    case SmallScales::half_minima:
      return {block.scale * nibble(half, 0), block.minimum * -nibble(half, 1)};
    case SmallScales::whole:
      return {block.scale * integer(0), block.minimum};
    case SmallScales::odd_halves:
      return {block.scale * (nibble(0, half) * 2 + 1), block.minimum};
    case SmallScales::shifted: {
      const float eighth = block.scale * integer(0) / 8;
      return {integer(0) < 0 ? -8 * eighth : 8 * eighth, eighth};
    }
    case SmallScales::float8_halves:
      return {block.scale * shape.unit * float8_value(small[half]), block.minimum};
    case SmallScales::shifted_halves:
      return {block.scale * (nibble(half, 0) * shape.unit), block.minimum};
  }
  return block;
}

namespace detail {

[[gnu::always_inline]] inline uint32_t byte_at(const std::byte* bytes, uint32_t index) noexcept {
  return static_cast<uint32_t>(bytes[index]);
}
// Nibble i where `half` bytes hold 2 · half values, low nibbles first.
[[gnu::always_inline]] inline uint32_t nibble_at(const std::byte* bytes, uint32_t half,
                                                 uint32_t i) noexcept {
  return byte_at(bytes, i / (2 * half) * half + i % half) >> (i / half % 2 * 4) & 15;
}

// Eight at a time, one a byte: bytes, nibbles i … i+7 of the same order (i a multiple of 8), and
// the bits of a byte.
inline constexpr uint64_t kEachByte = 0x0101010101010101u;
template <class V = uint64_t>
[[gnu::always_inline]] inline V bytes_at(const std::byte* bytes, uint32_t index) noexcept {
  V eight;
  __builtin_memcpy(&eight, bytes + index, sizeof(eight));
  return eight;
}
template <class V = uint64_t>
[[gnu::always_inline]] inline V nibbles_at(const std::byte* bytes, uint32_t half,
                                           uint32_t i) noexcept {
  return bytes_at<V>(bytes, i / (2 * half) * half + i % half) >> (i / half % 2 * 4) &
         15 * kEachByte;
}
[[gnu::always_inline]] inline uint32_t word_at(const std::byte* bytes, uint32_t index) noexcept {
  uint32_t word;
  __builtin_memcpy(&word, bytes + index, 4);
  return word;
}
[[gnu::always_inline]] inline uint32_t half_word_at(const std::byte* bytes,
                                                    uint32_t index) noexcept {
  return byte_at(bytes, index) | byte_at(bytes, index + 1) << 8;
}
// Two bits each, where 32 bytes hold 128 values: value i in byte i % 32, at bit 2 · (i / 32).
[[gnu::always_inline]] inline uint64_t pairs_at(const std::byte* bytes, uint32_t i) noexcept {
  return bytes_at(bytes, i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3 * kEachByte;
}
constexpr uint64_t bits_of(uint32_t byte) noexcept {
  const uint64_t set = byte * kEachByte & 0x8040201008040201u;
  return (set + 127 * kEachByte) >> 7 & kEachByte;
}

}  // namespace detail

}  // namespace tenon::sdk
