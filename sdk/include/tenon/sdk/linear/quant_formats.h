// Weights in blocks of values with scales, as GGUF files store them (docs/formats/gguf.md shows the
// bits). A weight of such a format crosses the boundary as one u8 tensor [n_out, bytes of a row],
// the blocks of a row one after the other.
//
// A format is a struct with a QuantShape and what the shape cannot say: where the bits of a value
// stand, of one and of eight from a multiple of 8 on, and the small scales. Everything else
// follows, so a new format is one struct and one line in with_quant_format. What a value stands
// for:
//
//   value = scale · (stored - zero) + minimum      stored: `bits` bits; signed where these are 8
//
// In formats of 32 values scale and minimum are f16. In those of 256 both are an f16 of the block
// times a small integer of a group, and the minimum is subtracted. scale · stored is exact in f32.
#pragma once

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

enum class QuantFormat : uint32_t { q8_0, q4_0, q4_1, q5_0, q5_1, q6_k, q4_k, q5_k };
inline constexpr uint32_t kQuantFormats = 8;

struct QuantShape {
  std::string_view name;
  QuantFormat format = QuantFormat::q8_0;
  uint32_t values = 32;  // of a block
  uint32_t bytes = 0;    // of a block
  uint32_t bits = 8;     // of a value
  uint32_t zero = 0;     // the stored value that stands for nothing but the minimum
  uint32_t scale_at = 0;
  bool has_minimum = false;  // its f16 stands behind the scale's
  bool nested = false;       // two small integers a group: scale and minimum, or scales of halves
  constexpr uint32_t groups() const noexcept { return values / kQuantGroupValues; }
};

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
[[gnu::always_inline]] inline uint64_t bytes_at(const std::byte* bytes, uint32_t index) noexcept {
  uint64_t eight;
  __builtin_memcpy(&eight, bytes + index, 8);
  return eight;
}
[[gnu::always_inline]] inline uint64_t nibbles_at(const std::byte* bytes, uint32_t half,
                                                  uint32_t i) noexcept {
  return bytes_at(bytes, i / (2 * half) * half + i % half) >> (i / half % 2 * 4) & 15 * kEachByte;
}
constexpr uint64_t bits_of(uint32_t byte) noexcept {
  const uint64_t set = byte * kEachByte & 0x8040201008040201u;
  return (set + 127 * kEachByte) >> 7 & kEachByte;
}

}  // namespace detail

struct Q8Block {
  static constexpr QuantShape kShape{.name = "q8_0", .format = QuantFormat::q8_0, .bytes = 34};
  static uint32_t stored(const std::byte* block, uint32_t i) noexcept {
    return detail::byte_at(block, 2 + i);
  }
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::bytes_at(block, 2 + i);
  }
};

struct Q4Block {
  static constexpr QuantShape kShape{
      .name = "q4_0", .format = QuantFormat::q4_0, .bytes = 18, .bits = 4, .zero = 8};
  static uint32_t stored(const std::byte* block, uint32_t i) noexcept {
    return detail::nibble_at(block + 2, 16, i);
  }
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 2, 16, i);
  }
};

struct Q4MinBlock {
  static constexpr QuantShape kShape{
      .name = "q4_1", .format = QuantFormat::q4_1, .bytes = 20, .bits = 4, .has_minimum = true};
  static uint32_t stored(const std::byte* block, uint32_t i) noexcept {
    return detail::nibble_at(block + 4, 16, i);
  }
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 4, 16, i);
  }
};

struct Q5Block {
  static constexpr QuantShape kShape{
      .name = "q5_0", .format = QuantFormat::q5_0, .bytes = 22, .bits = 5, .zero = 16};
  static uint32_t stored(const std::byte* block, uint32_t i) noexcept {
    return detail::nibble_at(block + 6, 16, i) | (detail::byte_at(block + 2, i / 8) >> i % 8 & 1)
                                                     << 4;
  }
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at(block + 6, 16, i) | detail::bits_of(detail::byte_at(block + 2, i / 8))
                                                      << 4;
  }
};

struct Q5MinBlock {
  static constexpr QuantShape kShape{
      .name = "q5_1", .format = QuantFormat::q5_1, .bytes = 24, .bits = 5, .has_minimum = true};
  static uint32_t stored(const std::byte* block, uint32_t i) noexcept {
    return detail::nibble_at(block + 8, 16, i) | (detail::byte_at(block + 4, i / 8) >> i % 8 & 1)
                                                     << 4;
  }
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
                                     .nested = true};
  static uint32_t stored(const std::byte* block, uint32_t i) noexcept {
    return detail::nibble_at(block, 64, i) |
           (detail::byte_at(block + 128, i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3) << 4;
  }
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
                                     .nested = true};
  static uint32_t stored(const std::byte* block, uint32_t i) noexcept {
    return detail::nibble_at(block + 16, 32, i);
  }
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
                                     .nested = true};
  static uint32_t stored(const std::byte* block, uint32_t i) noexcept {
    return detail::nibble_at(block + 48, 32, i) |
           (detail::byte_at(block + 16, i % 32) >> (i / 32) & 1) << 4;
  }
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    const uint64_t top = detail::bytes_at(block + 16, i % 32);
    return detail::nibbles_at(block + 48, 32, i) | (top >> (i / 32) & detail::kEachByte) << 4;
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t which) noexcept {
    return Q4SuperBlock::small(block, group, which);
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
    case QuantFormat::q8_0:
      break;
  }
  return f(Q8Block());
}

constexpr QuantShape quant_shape(QuantFormat format) noexcept {
  return with_quant_format(format, [](auto block) { return block.kShape; });
}

constexpr bool parse_quant_format(std::string_view name, QuantFormat& format) noexcept {
  for (uint32_t i = 0; i < kQuantFormats; ++i) {
    if (quant_shape(static_cast<QuantFormat>(i)).name != name) continue;
    format = static_cast<QuantFormat>(i);
    return true;
  }
  return false;
}

// "q8_0, q4_0, … and q5_k", for messages.
std::string quant_formats_text();

// An f16 at any address, as its bits.
[[gnu::always_inline]] inline uint16_t half_at(const std::byte* from) noexcept {
  uint16_t bits;
  __builtin_memcpy(&bits, from, 2);
  return bits;
}

// Null when `weight` is in a quantised format and whole; else why plugin `id` refuses it.
Status check_quant_weight(const WeightView& weight, std::string_view id);

}  // namespace tenon::sdk
