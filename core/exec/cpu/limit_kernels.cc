#include "core/exec/cpu/limit_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// The compiler must neither fold the sums nor keep them in memory.
#define TENON_KEEP(value) __asm__ volatile("" : "+x"(value))
#define TENON_KEEP_ZMM(value) __asm__ volatile("" : "+v"(value))

namespace tenon {
namespace {

typedef float F32x4 __attribute__((vector_size(16)));
typedef int16_t I16x8 __attribute__((vector_size(16)));
typedef uint64_t U64x2 __attribute__((vector_size(16)));

#if !defined(__x86_64__)
#undef TENON_KEEP
#define TENON_KEEP(value) __asm__ volatile("" : "+w"(value))
#endif

constexpr int kSums = 10;  // independent sums: 2 a cycle times a latency of up to 5
constexpr int kWideSums = 20;

uint64_t read_portable(const std::byte* from, size_t bytes) {
  U64x2 sum[4] = {};
  for (size_t i = 0; i < bytes; i += 64) {
    U64x2 part[4];
    __builtin_memcpy(part, from + i, sizeof(part));
    for (int j = 0; j < 4; ++j) sum[j] ^= part[j];
  }
  const U64x2 all = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
  return all[0] ^ all[1];
}

double fma_portable(uint64_t rounds) {
  F32x4 sum[kSums] = {};
  F32x4 factor = {};
  TENON_KEEP(factor);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (int j = 0; j < kSums; ++j) {
      sum[j] = sum[j] * factor + factor;
      TENON_KEEP(sum[j]);
    }
  }
  return 2.0 * 4 * kSums * static_cast<double>(rounds);
}

double int8_portable(uint64_t rounds) {
  I16x8 sum[kSums] = {};
  I16x8 factor = {};
  TENON_KEEP(factor);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (int j = 0; j < kSums; ++j) {
      I16x8 other = factor;
      TENON_KEEP(other);
      sum[j] += other * factor;
      TENON_KEEP(sum[j]);
    }
  }
  return 2.0 * 8 * kSums * static_cast<double>(rounds);
}

#if defined(__x86_64__)
#define TENON_TARGET(set) __attribute__((target(set)))
#define TENON_AVX2 "avx2,fma"
#define TENON_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"

TENON_TARGET(TENON_AVX2) uint64_t read_avx2(const std::byte* from, size_t bytes) {
  __m256i sum[8] = {};
  for (size_t i = 0; i < bytes; i += 256) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const auto* at = reinterpret_cast<const __m256i*>(from + i + 32 * j);
      sum[j] = _mm256_xor_si256(sum[j], _mm256_load_si256(at));
    }
  }
  for (int j = 1; j < 8; ++j) sum[0] = _mm256_xor_si256(sum[0], sum[j]);
  return static_cast<uint64_t>(_mm256_extract_epi64(sum[0], 0) ^ _mm256_extract_epi64(sum[0], 1));
}

TENON_TARGET(TENON_AVX2) double fma_avx2(uint64_t rounds) {
  __m256 sum[kSums] = {};
  __m256 factor = {};
  TENON_KEEP(factor);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (int j = 0; j < kSums; ++j) {
      sum[j] = _mm256_fmadd_ps(factor, factor, sum[j]);
      TENON_KEEP(sum[j]);
    }
  }
  return 2.0 * 8 * kSums * static_cast<double>(rounds);
}

// Without VNNI a dot product takes three instructions.
TENON_TARGET(TENON_AVX2) double int8_avx2(uint64_t rounds) {
  __m256i sum[kSums] = {};
  __m256i factor = {};
  const __m256i ones = _mm256_set1_epi16(1);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (int j = 0; j < kSums; ++j) {
      TENON_KEEP(factor);
      const __m256i pairs = _mm256_maddubs_epi16(factor, factor);
      sum[j] = _mm256_add_epi32(sum[j], _mm256_madd_epi16(pairs, ones));
      TENON_KEEP(sum[j]);
    }
  }
  return 2.0 * 32 * kSums * static_cast<double>(rounds);
}

TENON_TARGET(TENON_AVX512) uint64_t read_avx512(const std::byte* from, size_t bytes) {
  __m512i sum[8] = {};
  for (size_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      sum[j] = _mm512_xor_si512(sum[j], _mm512_load_si512(from + i + 64 * j));
    }
  }
  for (int j = 1; j < 8; ++j) sum[0] = _mm512_xor_si512(sum[0], sum[j]);
  uint64_t parts[8];
  _mm512_storeu_si512(parts, sum[0]);
  for (int j = 1; j < 8; ++j) parts[0] ^= parts[j];
  return parts[0];
}

TENON_TARGET(TENON_AVX512) double fma_avx512(uint64_t rounds) {
  __m512 sum[kWideSums] = {};
  __m512 factor = {};
  TENON_KEEP_ZMM(factor);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 20
    for (int j = 0; j < kWideSums; ++j) {
      sum[j] = _mm512_fmadd_ps(factor, factor, sum[j]);
      TENON_KEEP_ZMM(sum[j]);
    }
  }
  return 2.0 * 16 * kWideSums * static_cast<double>(rounds);
}

TENON_TARGET(TENON_AVX512) double int8_avx512(uint64_t rounds) {
  __m512i sum[kWideSums] = {};
  __m512i factor = {};
  const __m512i ones = _mm512_set1_epi16(1);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 20
    for (int j = 0; j < kWideSums; ++j) {
      TENON_KEEP_ZMM(factor);
      const __m512i pairs = _mm512_maddubs_epi16(factor, factor);
      sum[j] = _mm512_add_epi32(sum[j], _mm512_madd_epi16(pairs, ones));
      TENON_KEEP_ZMM(sum[j]);
    }
  }
  return 2.0 * 64 * kWideSums * static_cast<double>(rounds);
}

TENON_TARGET(TENON_AVX512 ",avx512vnni") double int8_vnni(uint64_t rounds) {
  __m512i sum[kWideSums] = {};
  __m512i factor = {};
  TENON_KEEP_ZMM(factor);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 20
    for (int j = 0; j < kWideSums; ++j) {
      sum[j] = _mm512_dpbusd_epi32(sum[j], factor, factor);
      TENON_KEEP_ZMM(sum[j]);
    }
  }
  return 2.0 * 64 * kWideSums * static_cast<double>(rounds);
}

TENON_TARGET(TENON_AVX512 ",avx512bf16") double bf16_avx512(uint64_t rounds) {
  __m512 sum[kWideSums] = {};
  __m512 factor = {};
  TENON_KEEP_ZMM(factor);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 20
    for (int j = 0; j < kWideSums; ++j) {
      sum[j] = _mm512_dpbf16_ps(sum[j], (__m512bh)factor, (__m512bh)factor);
      TENON_KEEP_ZMM(sum[j]);
    }
  }
  return 2.0 * 32 * kWideSums * static_cast<double>(rounds);
}
#endif

}  // namespace

LimitKernels limit_kernels(CpuIsa isa) {
  LimitKernels kernels{&read_portable, &fma_portable, nullptr, &int8_portable};
#if defined(__x86_64__)
  if (isa >= CpuIsa::avx2) kernels = {&read_avx2, &fma_avx2, nullptr, &int8_avx2};
  if (isa >= CpuIsa::avx512) kernels = {&read_avx512, &fma_avx512, nullptr, &int8_avx512};
  if (isa >= CpuIsa::avx512_vnni) kernels.int8 = &int8_vnni;
  if (isa >= CpuIsa::avx512_bf16) kernels.bf16 = &bf16_avx512;
#else
  (void)isa;
#endif
  return kernels;
}

}  // namespace tenon
