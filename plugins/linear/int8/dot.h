// 8-bit dot products of one instruction set: a lane of a sum is one column of y, and one step adds
// four products of neighbouring k to it. Sums over a group of 32 are exact; no step saturates.
//
// `Bytes` is a vector of kLanes columns of four bytes. A policy for a format says what a sum starts
// with, how a step adds to it, and what number it stands for in the end:
//   whole(sum, start)        = Σ w·x
//   value(sum, start, scale) = (Σ w·x) · scale, rounded once.
// Where it takes several steps at once, it has `add_steps` (dot_neon.h) in place of what adds one.
#pragma once

#if defined(TENON_NEON)
#include "plugins/linear/int8/dot_neon.h"
#else

#include <tenon/sdk/simd.h>

#include <cstdint>

#include "plugins/linear/int8/kernels.h"

namespace tenon::int8 {
namespace {

namespace simd = sdk::simd;
using simd::F32;

// A sum, now. GCC would rather add all products of a group at its end, and keep them on the stack
// until then: to it an addition of integers may come in any order.
template <class Sum>
[[gnu::always_inline]] inline Sum now(Sum sum) {
#if defined(__x86_64__)
  asm("" : "+x"(sum));
#endif
  return sum;
}

#if defined(__AVX512VNNI__)

using Bytes = __m512i;
#define TENON_INT8_SET avx512_vnni
inline constexpr const char* kSetName = "int8.2/avx512_vnni";
// Whether codes may become other bytes before they are multiplied. The other sets' products of
// bytes beyond nibbles, or with signs, cost more than that saves.
inline constexpr bool kChangesCodes = true;
// Whether RowGroup's starts are those of either lane of a column (DotCentred).
inline constexpr bool kLaneStarts = false;
// Whether signed bytes that many rows are multiplied with are split beforehand (DotSplit).
inline constexpr bool kSplitsSigns = false;
// The instruction multiplies unsigned by signed bytes: q8_0 is stored with 128 added.
inline constexpr uint32_t kStoredOffset[3] = {128, 8, 0};
// Sums start at the bits of 1.5·2^23: what is added to the bits is added to the number, so no
// conversion is needed. A group's sum is below 2^20.
inline constexpr int32_t kStartBits = 0x4b400000;

[[gnu::always_inline]] inline Bytes load_bytes(const std::byte* from) {
  return _mm512_loadu_si512(from);
}
[[gnu::always_inline]] inline Bytes low_nibbles(Bytes pairs) {
  return _mm512_and_si512(pairs, _mm512_set1_epi8(15));
}
[[gnu::always_inline]] inline Bytes high_nibbles(Bytes pairs) {
  return low_nibbles(_mm512_srli_epi16(pairs, 4));
}
// Bytes below 16 as bytes of a table.
[[gnu::always_inline]] inline Bytes lookup(const int8_t* table, Bytes index) {
  const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(sixteen), index);
}
[[gnu::always_inline]] inline void store_bytes(Bytes value, std::byte* to) {
  _mm512_storeu_si512(to, value);
}
[[gnu::always_inline]] inline void store_int8(F32 integers, int8_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(integers)));
}

struct Dot {
  using Sum = __m512i;
  using X = __m512i;
  struct Weights {
    Bytes bytes;
  };
  struct Scale {
    F32 factor, shift;
  };
  [[gnu::always_inline]] static Weights weights(Bytes bytes) { return {bytes}; }
  [[gnu::always_inline]] static Sum start(int32_t start) { return _mm512_set1_epi32(start); }
  [[gnu::always_inline]] static X broadcast(const std::byte* four) {
    int32_t word;
    __builtin_memcpy(&word, four, 4);
    return _mm512_set1_epi32(word);
  }
  [[gnu::always_inline]] static Sum add(Sum sum, Weights w, X x) {
    return _mm512_dpbusd_epi32(sum, w.bytes, x);
  }
  // An f16 scale times 1.5·2^23 is exact, so the fused step rounds once.
  [[gnu::always_inline]] static Scale scale(F32 factor) {
    return {factor, simd::mul(factor, simd::set1(-12582912.0f))};
  }
  [[gnu::always_inline]] static F32 whole(Sum sum, int32_t) {
    return simd::sub(_mm512_castsi512_ps(sum), simd::set1(12582912.0f));
  }
  [[gnu::always_inline]] static F32 value(Sum sum, int32_t, Scale scale) {
    return simd::fma(_mm512_castsi512_ps(sum), scale.factor, scale.shift);
  }
};
using DotQ8 = Dot;
using DotU8 = Dot;
using DotLevels = Dot;
using DotQ4 = Dot;
using DotUnsigned = Dot;
template <bool>
using DotCentred = Dot;
using DotSplit = Dot;

#elif defined(__AVX2__)

using Bytes = __m256i;
inline constexpr const char* kSetName = "int8.2/avx2";

[[gnu::always_inline]] inline Bytes load_bytes(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
[[gnu::always_inline]] inline Bytes low_nibbles(Bytes pairs) {
  return _mm256_and_si256(pairs, _mm256_set1_epi8(15));
}
[[gnu::always_inline]] inline Bytes high_nibbles(Bytes pairs) {
  return low_nibbles(_mm256_srli_epi16(pairs, 4));
}
[[gnu::always_inline]] inline Bytes lookup(const int8_t* table, Bytes index) {
  const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(sixteen), index);
}
[[gnu::always_inline]] inline void store_bytes(Bytes value, std::byte* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value);
}
[[gnu::always_inline]] inline void store_int8(F32 integers, int8_t* to) {
  const __m256i words = _mm256_cvtps_epi32(integers);
  const __m128i halves =
      _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi16(halves, halves));
}

#if defined(__AVXVNNI__)

// The instruction of AVX-512 VNNI at half the width: the same exact sums as without it, so the same
// numerics. u8 is signed as there, since its zero is rounded with what it is stored with.
#define TENON_INT8_SET avx_vnni
inline constexpr bool kChangesCodes = true;
inline constexpr bool kLaneStarts = false;
inline constexpr bool kSplitsSigns = false;
inline constexpr uint32_t kStoredOffset[3] = {128, 8, 128};
inline constexpr int32_t kStartBits = 0x4b400000;

struct Dot {
  using Sum = __m256i;
  using X = __m256i;
  struct Weights {
    Bytes bytes;
  };
  struct Scale {
    F32 factor, shift;
  };
  [[gnu::always_inline]] static Weights weights(Bytes bytes) { return {bytes}; }
  [[gnu::always_inline]] static Sum start(int32_t start) { return _mm256_set1_epi32(start); }
  [[gnu::always_inline]] static X broadcast(const std::byte* four) {
    int32_t word;
    __builtin_memcpy(&word, four, 4);
    return _mm256_set1_epi32(word);
  }
  [[gnu::always_inline]] static Sum add(Sum sum, Weights w, X x) {
    return _mm256_dpbusd_avx_epi32(sum, w.bytes, x);
  }
  [[gnu::always_inline]] static Scale scale(F32 factor) {
    return {factor, simd::mul(factor, simd::set1(-12582912.0f))};
  }
  [[gnu::always_inline]] static F32 whole(Sum sum, int32_t) {
    return simd::sub(_mm256_castsi256_ps(sum), simd::set1(12582912.0f));
  }
  [[gnu::always_inline]] static F32 value(Sum sum, int32_t, Scale scale) {
    return simd::fma(_mm256_castsi256_ps(sum), scale.factor, scale.shift);
  }
};
// Scales of tables may have all the bits that an f32 has: what they are multiplied with must be a
// whole number.
struct DotLevels : Dot {
  using Scale = F32;
  [[gnu::always_inline]] static Scale scale(F32 factor) { return factor; }
  [[gnu::always_inline]] static F32 value(Sum sum, int32_t start, Scale scale) {
    return simd::mul(whole(sum, start), scale);
  }
};
// Magnitudes of signed w times x with the sign of w.
struct DotU8 : Dot {
  struct Weights {
    Bytes bytes, magnitude;
  };
  [[gnu::always_inline]] static Weights weights(Bytes bytes) {
    return {bytes, _mm256_abs_epi8(bytes)};
  }
  [[gnu::always_inline]] static Sum add(Sum sum, Weights w, X x) {
    return _mm256_dpbusd_avx_epi32(sum, w.magnitude, _mm256_sign_epi8(x, w.bytes));
  }
};
using DotQ8 = Dot;
using DotQ4 = Dot;
using DotUnsigned = Dot;
template <bool>
using DotCentred = Dot;
using DotSplit = Dot;

#else

#define TENON_INT8_SET avx2
inline constexpr bool kChangesCodes = false;
inline constexpr bool kLaneStarts = true;
inline constexpr bool kSplitsSigns = true;
inline constexpr uint32_t kStoredOffset[3] = {0, 8, 128};
inline constexpr int32_t kStartBits = 0;

struct DotBase {
  using Sum = __m256i;
  using X = __m256i;
  using Scale = F32;
  [[gnu::always_inline]] static Sum start(int32_t) { return _mm256_setzero_si256(); }
  [[gnu::always_inline]] static X broadcast(const std::byte* four) {
    int32_t word;
    __builtin_memcpy(&word, four, 4);
    return _mm256_set1_epi32(word);
  }
  [[gnu::always_inline]] static Scale scale(F32 factor) { return factor; }
};

// Magnitudes of w times x with the sign of w: 2 · 128 · 127 is the most that a pair can make, and
// it fits 16 bits.
struct DotQ8 : DotBase {
  struct Weights {
    Bytes bytes, magnitude;
  };
  [[gnu::always_inline]] static Weights weights(Bytes bytes) {
    return {bytes, _mm256_abs_epi8(bytes)};
  }
  [[gnu::always_inline]] static Sum add(Sum sum, Weights w, X x) {
    const __m256i pairs = _mm256_maddubs_epi16(w.magnitude, _mm256_sign_epi8(x, w.bytes));
    return now(_mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
  }
  [[gnu::always_inline]] static F32 whole(Sum sum, int32_t) { return _mm256_cvtepi32_ps(sum); }
  [[gnu::always_inline]] static F32 value(Sum sum, int32_t start, Scale scale) {
    return simd::mul(whole(sum, start), scale);
  }
};

// The same with magnitudes and signs made beforehand: a negative w takes ~x, which is -x - 1, so
// its magnitude is missing and sums start with it (split_bytes). The sign of x would take a port
// that products need; inverting it does not.
struct DotSplit : DotBase {
  struct Weights {
    Bytes magnitude, negative;  // negative: all bits of the byte
  };
  [[gnu::always_inline]] static Sum add(Sum sum, Weights w, X x) {
    const __m256i pairs = _mm256_maddubs_epi16(w.magnitude, _mm256_xor_si256(x, w.negative));
    return now(_mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
  }
  [[gnu::always_inline]] static F32 whole(Sum sum, int32_t) { return _mm256_cvtepi32_ps(sum); }
  [[gnu::always_inline]] static F32 value(Sum sum, int32_t start, Scale scale) {
    return simd::mul(whole(sum, start), scale);
  }
};
// Splits the bytes of a step, and adds to what sums start with.
[[gnu::always_inline]] inline DotSplit::Weights split_bytes(Bytes bytes, DotSplit::Sum& start) {
  const DotSplit::Weights w{_mm256_abs_epi8(bytes),
                            _mm256_cmpgt_epi8(_mm256_setzero_si256(), bytes)};
  const __m256i pairs =
      _mm256_maddubs_epi16(_mm256_and_si256(w.magnitude, w.negative), _mm256_set1_epi8(1));
  start = _mm256_add_epi32(start, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  return w;
}

// Bytes without a sign, below 128.
struct DotUnsigned : DotBase {
  struct Weights {
    Bytes bytes;
  };
  [[gnu::always_inline]] static Weights weights(Bytes bytes) { return {bytes}; }
  [[gnu::always_inline]] static Sum add(Sum sum, Weights w, X x) {
    const __m256i pairs = _mm256_maddubs_epi16(w.bytes, x);
    return now(_mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
  }
  [[gnu::always_inline]] static F32 whole(Sum sum, int32_t start) {
    return _mm256_cvtepi32_ps(_mm256_add_epi32(sum, _mm256_set1_epi32(start)));
  }
  [[gnu::always_inline]] static F32 value(Sum sum, int32_t start, Scale scale) {
    return simd::mul(whole(sum, start), scale);
  }
};

// Nibbles, and less, are small: eight steps of pairs stay below 8 · 2 · 15 · 128 and fit 16 bits.
struct DotQ4 : DotBase {
  struct Weights {
    Bytes bytes;
  };
  [[gnu::always_inline]] static Weights weights(Bytes bytes) { return {bytes}; }
  [[gnu::always_inline]] static Sum add(Sum sum, Weights w, X x) {
    return now(_mm256_add_epi16(sum, _mm256_maddubs_epi16(w.bytes, x)));
  }
  [[gnu::always_inline]] static F32 whole(Sum sum, int32_t start) {
    const __m256i pairs = _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
    return _mm256_cvtepi32_ps(_mm256_add_epi32(pairs, _mm256_set1_epi32(start)));
  }
  [[gnu::always_inline]] static F32 value(Sum sum, int32_t start, Scale scale) {
    return simd::mul(whole(sum, start), scale);
  }
};

// Codes that are at most 16 from 16 where eight steps have one scale, 32 from 32 where four have:
// less that middle, a lane's sum of pairs fits 16 bits, so it may go round on the way there. Sums
// start at what the middle takes from either lane of a column. `from_zero`: it is given back in the
// end.
template <bool from_zero>
struct DotCentred : DotBase {
  struct Weights {
    Bytes bytes;
  };
  [[gnu::always_inline]] static Weights weights(Bytes bytes) { return {bytes}; }
  [[gnu::always_inline]] static Sum start(int32_t lanes) { return _mm256_set1_epi32(lanes); }
  [[gnu::always_inline]] static Sum add(Sum sum, Weights w, X x) {
    return now(_mm256_add_epi16(sum, _mm256_maddubs_epi16(w.bytes, x)));
  }
  [[gnu::always_inline]] static F32 whole(Sum sum, int32_t lanes) {
    const __m256i ones = _mm256_set1_epi16(1);
    Sum all = _mm256_madd_epi16(sum, ones);
    if constexpr (from_zero) all = _mm256_sub_epi32(all, _mm256_madd_epi16(start(lanes), ones));
    return _mm256_cvtepi32_ps(all);
  }
  [[gnu::always_inline]] static F32 value(Sum sum, int32_t lanes, Scale scale) {
    return simd::mul(whole(sum, lanes), scale);
  }
};

using DotU8 = DotQ8;
using DotLevels = DotQ8;

#endif

#else

typedef int32_t Words __attribute__((vector_size(16)));
typedef uint32_t Bits __attribute__((vector_size(16)));
typedef int16_t Halves __attribute__((vector_size(16)));
using Bytes = Words;
#define TENON_INT8_SET portable
inline constexpr const char* kSetName = "int8.2/portable";
inline constexpr bool kChangesCodes = false;
inline constexpr bool kLaneStarts = false;
inline constexpr bool kSplitsSigns = false;
inline constexpr uint32_t kStoredOffset[3] = {0, 8, 128};
inline constexpr int32_t kStartBits = 0;

[[gnu::always_inline]] inline Bytes load_bytes(const std::byte* from) {
  Bytes value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}
[[gnu::always_inline]] inline Bytes low_nibbles(Bytes pairs) {
  return pairs & 0x0f0f0f0f;
}
[[gnu::always_inline]] inline Bytes high_nibbles(Bytes pairs) {
  return (Bytes)((Bits)pairs >> 4) & 0x0f0f0f0f;
}
[[gnu::always_inline]] inline Bytes lookup(const int8_t* table, Bytes index) {
  uint8_t at[sizeof(Bytes)];
  int8_t found[sizeof(Bytes)];
  __builtin_memcpy(at, &index, sizeof(index));
  for (uint32_t i = 0; i < sizeof(Bytes); ++i) found[i] = table[at[i] & 15];
  Bytes value;
  __builtin_memcpy(&value, found, sizeof(value));
  return value;
}
[[gnu::always_inline]] inline void store_bytes(Bytes value, std::byte* to) {
  __builtin_memcpy(to, &value, sizeof(value));
}
[[gnu::always_inline]] inline void store_int8(F32 integers, int8_t* to) {
  for (uint32_t i = 0; i < simd::kLanes; ++i) {
    // A NaN becomes a NaN result by its scale.
    to[i] = integers[i] == integers[i] ? static_cast<int8_t>(integers[i]) : int8_t{0};
  }
}

// Bytes of even and odd k are widened to 16 bits where they stand; their products fit 16 bits.
struct DotQ8 {
  using Sum = Words;
  using Scale = F32;
  struct Weights {
    Halves even, odd;
  };
  using X = Weights;
  [[gnu::always_inline]] static Weights weights(Bytes bytes) {
    const auto halves = (Halves)bytes;
    return {(Halves)(halves << 8) >> 8, halves >> 8};
  }
  [[gnu::always_inline]] static Sum start(int32_t) { return Sum{}; }
  [[gnu::always_inline]] static X broadcast(const std::byte* four) {
    int32_t word;
    __builtin_memcpy(&word, four, 4);
    return weights(Bytes{word, word, word, word});
  }
  [[gnu::always_inline]] static Sum add(Sum sum, Weights w, X x) {
    const auto even = (Words)(w.even * x.even);
    const auto odd = (Words)(w.odd * x.odd);
    return now(sum + ((Words)((Bits)even << 16) >> 16) + (even >> 16) +
               ((Words)((Bits)odd << 16) >> 16) + (odd >> 16));
  }
  [[gnu::always_inline]] static Scale scale(F32 factor) { return factor; }
  [[gnu::always_inline]] static F32 whole(Sum sum, int32_t start) {
    return __builtin_convertvector(sum + start, F32);
  }
  [[gnu::always_inline]] static F32 value(Sum sum, int32_t start, Scale scale) {
    return whole(sum, start) * scale;
  }
};
using DotU8 = DotQ8;
using DotLevels = DotQ8;
using DotQ4 = DotQ8;
using DotUnsigned = DotQ8;
template <bool>
using DotCentred = DotQ8;
using DotSplit = DotQ8;

#endif

}  // namespace
}  // namespace tenon::int8

#endif
