#include "core/exec/cpu/limit_kernels.h"

namespace tenon {
namespace {

using Words = uint64_t __attribute__((vector_size(16)));
using Floats = float __attribute__((vector_size(16)));
using Shorts = int16_t __attribute__((vector_size(16)));

// Independent sums that hide the latency of an instruction that starts twice a cycle and takes up
// to 5; twice as many where there are registers for them.
constexpr int kSums = 10;
constexpr int kWideSums = 20;

// `step(sum, factor, scratch)` on every sum, `rounds` times. It is inlined into functions of an
// instruction set, like all that they call.
template <typename V, int sums, typename Step>
[[gnu::always_inline]] inline void repeat(uint64_t rounds, const Step& step) {
  V sum[sums] = {};
  V factor = {};
  V scratch = {};
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 20
    for (int j = 0; j < sums; ++j) step(sum[j], factor, scratch);
  }
}
constexpr double operations(int lanes, int sums, uint64_t rounds) {
  return 2.0 * lanes * sums * static_cast<double>(rounds);
}

// The exclusive or of all words, in `sums` chains.
template <typename V, int sums>
[[gnu::always_inline]] inline uint64_t read(const std::byte* from, size_t size) {
  V sum[sums] = {};
  for (size_t i = 0; i < size; i += sizeof(sum)) {
#pragma GCC unroll 8
    for (int j = 0; j < sums; ++j) {
      sum[j] ^= *reinterpret_cast<const V*>(from + i + sizeof(V) * static_cast<size_t>(j));
    }
  }
  uint64_t words[sums * (sizeof(V) / sizeof(uint64_t))];
  __builtin_memcpy(words, sum, sizeof(sum));
  uint64_t all = 0;
  for (const uint64_t word : words) all ^= word;
  return all;
}

uint64_t read_portable(const std::byte* from, size_t bytes) {
  return read<Words, 4>(from, bytes);
}

// The compiler must neither fold the sums nor keep them in memory.
#if defined(__x86_64__)
#define TENON_KEEP(value) __asm__ volatile("" : "+x"(value))
#else
#define TENON_KEEP(value) __asm__ volatile("" : "+w"(value))
#endif

double fma_portable(uint64_t rounds) {
  repeat<Floats, kSums>(rounds, [](Floats& sum, Floats& factor, Floats&) {
    TENON_KEEP(factor);
    sum = sum * factor + factor;
    TENON_KEEP(sum);
  });
  return operations(4, kSums, rounds);
}

double int8_portable(uint64_t rounds) {
  repeat<Shorts, kSums>(rounds, [](Shorts& sum, Shorts& factor, Shorts&) {
    TENON_KEEP(factor);
    sum += factor * factor;
    TENON_KEEP(sum);
  });
  return operations(8, kSums, rounds);
}

#if defined(__x86_64__)
// One step in assembly: the instruction is the one that is meant. %0 sum, %1 factor, %2 scratch.
#define TENON_STEP(V, instructions)                                          \
  [](V & sum, V & factor, V & scratch) __attribute__((always_inline)) {      \
    __asm__ volatile(instructions : "+v"(sum), "+v"(factor), "+v"(scratch)); \
  }
#define TENON_AVX2 [[gnu::target("avx2,fma")]]
#define TENON_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]
// What they hold does not matter, their width does.
using Ymm = uint64_t __attribute__((vector_size(32)));
using Zmm = uint64_t __attribute__((vector_size(64)));

TENON_AVX2 uint64_t read_avx2(const std::byte* from, size_t bytes) {
  return read<Ymm, 8>(from, bytes);
}
TENON_AVX512 uint64_t read_avx512(const std::byte* from, size_t bytes) {
  return read<Zmm, 8>(from, bytes);
}

TENON_AVX2 double fma_avx2(uint64_t rounds) {
  repeat<Ymm, kSums>(rounds, TENON_STEP(Ymm, "vfmadd231ps %1, %1, %0"));
  return operations(8, kSums, rounds);
}
TENON_AVX512 double fma_avx512(uint64_t rounds) {
  repeat<Zmm, kWideSums>(rounds, TENON_STEP(Zmm, "vfmadd231ps %1, %1, %0"));
  return operations(16, kWideSums, rounds);
}

// Without VNNI a dot product takes three instructions.
#define TENON_DOT "vpmaddubsw %1, %1, %2\n vpmaddwd %1, %2, %2\n vpaddd %2, %0, %0"
TENON_AVX2 double int8_avx2(uint64_t rounds) {
  repeat<Ymm, kSums>(rounds, TENON_STEP(Ymm, TENON_DOT));
  return operations(32, kSums, rounds);
}
TENON_AVX512 double int8_avx512(uint64_t rounds) {
  repeat<Zmm, kWideSums>(rounds, TENON_STEP(Zmm, TENON_DOT));
  return operations(64, kWideSums, rounds);
}

TENON_AVX512 double int8_vnni(uint64_t rounds) {
  repeat<Zmm, kWideSums>(rounds, TENON_STEP(Zmm, "vpdpbusd %1, %1, %0"));
  return operations(64, kWideSums, rounds);
}
TENON_AVX512 double bf16_avx512(uint64_t rounds) {
  repeat<Zmm, kWideSums>(rounds, TENON_STEP(Zmm, "vdpbf16ps %1, %1, %0"));
  return operations(32, kWideSums, rounds);
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
