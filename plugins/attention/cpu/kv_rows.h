// Rows of K and V in the cache's element types: stored from f32, and read back as vectors.
//
// An element type E says
//   kPerWord              elements of K in one 32-bit word of a transposed tile; 1: read as f32
//   kPaired               V is read as even and odd elements of 2·kLanes
//   load_pair / load      one read of 2·kLanes elements, paired or in order, or kLanes in order
//   element<j>(words)     the j-th element of each word
//   kScaled, kShifted     whether x = u · scale (+ least) of the row
#pragma once

#include <tenon/sdk/half.h>
#include <tenon/sdk/simd.h>

#include "plugins/attention/cpu/kernels.h"

namespace tenon::attention_cpu {
namespace {

namespace simd = sdk::simd;
using simd::F32;

struct FloatingPoint {
  static constexpr bool kScaled = false;
  static constexpr bool kShifted = false;
  static constexpr bool kPaired = false;
  static constexpr uint32_t kPerWord = 1;
  template <int j>
  [[gnu::always_inline]] static F32 element(F32 words) {
    return words;
  }
};

struct F32Elements : FloatingPoint {
  static constexpr uint32_t kBits = 32;
  [[gnu::always_inline]] static F32 load(const std::byte* from) { return simd::load(from); }
  static void store(std::byte* to, F32 value) { simd::store(reinterpret_cast<float*>(to), value); }
};

struct F16Elements : FloatingPoint {
  static constexpr uint32_t kBits = 16;
  [[gnu::always_inline]] static F32 load(const std::byte* from) { return simd::load_f16(from); }
  static void store(std::byte* to, F32 value) { simd::store_f16(to, value); }
};

struct Bf16Elements : FloatingPoint {
  static constexpr uint32_t kBits = 16;
  static constexpr uint32_t kPerWord = 2;
  static constexpr bool kPaired = true;
  [[gnu::always_inline]] static F32 load(const std::byte* from) { return simd::load_bf16(from); }
  [[gnu::always_inline]] static void load_pair(const std::byte* from, F32& even, F32& odd) {
    const F32 words = simd::load(from);
    even = simd::widen_low(words);
    odd = simd::widen_high(words);
  }
  template <int j>
  [[gnu::always_inline]] static F32 element(F32 words) {
    return j == 0 ? simd::widen_low(words) : simd::widen_high(words);
  }
  static void store(std::byte* to, F32 value) { simd::store_bf16(to, value); }
};

struct I8Elements {
  static constexpr bool kScaled = true;
  static constexpr bool kShifted = false;
  static constexpr bool kPaired = false;
  static constexpr uint32_t kBits = 8;
  static constexpr uint32_t kPerWord = 4;
  static constexpr DType kType = DType::i8;
  static constexpr float kLowest = -127;
  static constexpr float kHighest = 127;
  [[gnu::always_inline]] static F32 load(const std::byte* from) { return simd::load_i8(from); }
  template <int j>
  [[gnu::always_inline]] static F32 element(F32 words) {
    return simd::signed_byte<j>(words);
  }
};

struct I4Elements {
  static constexpr bool kScaled = true;
  static constexpr bool kShifted = true;
  static constexpr bool kPaired = true;
  static constexpr uint32_t kBits = 4;
  static constexpr uint32_t kPerWord = 8;
  static constexpr DType kType = DType::i4;
  static constexpr float kLowest = 0;
  static constexpr float kHighest = 15;
  [[gnu::always_inline]] static void load_pair(const std::byte* from, F32& even, F32& odd) {
    simd::load_nibbles(from, even, odd);
  }
  template <int j>
  [[gnu::always_inline]] static F32 element(F32 words) {
    return simd::nibble<j>(words);
  }
};

// Bytes of a row's elements, without the scales after them.
template <class E>
constexpr uint32_t element_bytes(uint32_t dim) {
  return (dim * E::kBits + 7) / 8;
}
// Whether V is kept as even and odd elements of 2·kLanes each, until it is written out.
template <class E>
constexpr bool paired_columns(uint32_t dim) {
  return E::kPaired && dim % (2 * simd::kLanes) == 0;
}

inline float read_bf16(const std::byte* from) {
  uint16_t bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return sdk::bf16_to_float(bits);
}
inline void write_bf16(std::byte* to, float value) {
  const uint16_t bits = sdk::float_to_bf16(value);
  __builtin_memcpy(to, &bits, sizeof(bits));
}

// Elements [at, at + kLanes) of a row in order; those from `dim` on are zero and not read.
template <class E>
[[gnu::always_inline]] inline F32 load_within(const std::byte* row, uint32_t at, uint32_t dim) {
  if constexpr (E::kBits == 4) {
    alignas(64) float values[simd::kLanes];
    for (uint32_t i = 0; i < simd::kLanes; ++i) {
      const uint32_t d = at + i;
      const auto byte = d < dim ? static_cast<uint32_t>(row[d / 2]) : 0;
      values[i] = static_cast<float>(d % 2 == 0 ? byte & 15 : byte >> 4);
    }
    return simd::load(values);
  } else {
    constexpr uint32_t kBytes = E::kBits / 8;
    if (at + simd::kLanes <= dim) return E::load(row + at * kBytes);
    alignas(64) std::byte rest[simd::kLanes * 4] = {};
    if (at < dim) __builtin_memcpy(rest, row + at * kBytes, (dim - at) * kBytes);
    return E::load(rest);
  }
}

// `dim` f32 into a row, not a byte more.
template <class E>
void store_plain_row(const float* from, uint32_t dim, std::byte* to) {
  constexpr uint32_t kBytes = E::kBits / 8;
  uint32_t i = 0;
  for (; i + simd::kLanes <= dim; i += simd::kLanes)
    E::store(to + i * kBytes, simd::load(from + i));
  if (i == dim) return;
  alignas(64) std::byte rest[simd::kLanes * 4];
  E::store(rest, simd::load_first(from + i, dim - i));
  __builtin_memcpy(to + i * kBytes, rest, (dim - i) * kBytes);
}

// The largest bf16 that is not above `value`.
inline float bf16_below(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const bool away = (bits >> 31) != 0 && (bits & 0xffffu) != 0;
  return __builtin_bit_cast(float, ((bits >> 16) + (away ? 1u : 0u)) << 16);
}

struct RowScale {
  float scale;
  float least;
};
// <tenon/attention.h> defines it. A scale that is not finite is NaN.
template <class E>
RowScale scale_of(const float* from, uint32_t dim) {
  float lowest = from[0];
  float highest = from[0];
  bool finite = true;
  for (uint32_t d = 0; d < dim; ++d) {
    lowest = from[d] < lowest ? from[d] : lowest;
    highest = from[d] > highest ? from[d] : highest;
    finite = finite && from[d] - from[d] == 0;
  }
  if (!finite) return {__builtin_nanf(""), 0};
  const float least = E::kShifted ? bf16_below(lowest) : 0;
  const float range = E::kShifted ? highest - least : (-lowest > highest ? -lowest : highest);
  const float scale = sdk::bf16_to_float(sdk::float_to_bf16(range / E::kHighest));
  const bool usable = scale - scale == 0 && least - least == 0;
  return usable ? RowScale{scale, least} : RowScale{__builtin_nanf(""), 0};
}

template <class E, uint32_t kMost>
void store_scaled_row(const float* from, uint32_t dim, std::byte* to) {
  const RowScale row = scale_of<E>(from, dim);
  alignas(64) float elements[kMost + simd::kLanes] = {};
  if (row.scale > 0) {
    for (uint32_t d = 0; d < dim; d += simd::kLanes) {
      const F32 x = simd::sub(simd::load_first(from + d, dim - d), simd::set1(row.least));
      const F32 whole = simd::round(simd::div(x, simd::set1(row.scale)));
      simd::store(elements + d,
                  simd::min(simd::set1(E::kHighest), simd::max(simd::set1(E::kLowest), whole)));
    }
    for (uint32_t d = dim; d < dim + simd::kLanes; ++d) elements[d] = 0;
  }
  const auto bytes = static_cast<uint32_t>(kv_element_bytes(E::kType, dim));
  for (uint32_t i = 0; i < bytes; ++i) {
    int byte = 0;
    if constexpr (E::kBits == 8) {
      byte = static_cast<int>(elements[i]);
    } else {
      byte = static_cast<int>(elements[2 * i]) | static_cast<int>(elements[2 * i + 1]) << 4;
    }
    to[i] = static_cast<std::byte>(byte);
  }
  write_bf16(to + bytes, row.scale);
  if (E::kShifted) write_bf16(to + bytes + 2, row.least);
}

template <class E>
void store_row(const float* from, uint32_t dim, std::byte* to) {
  if constexpr (E::kScaled) {
    if (dim <= kMaxHeadDim) return store_scaled_row<E, kMaxHeadDim>(from, dim, to);
    store_scaled_row<E, kMaxLatentDim>(from, dim, to);
  } else {
    store_plain_row<E>(from, dim, to);
  }
}

}  // namespace
}  // namespace tenon::attention_cpu
