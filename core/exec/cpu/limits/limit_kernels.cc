#include "core/exec/cpu/limits/limit_kernels.h"

#include <tenon/processors/cpu_sets.h>

namespace tenon {
namespace {

using Words = uint64_t __attribute__((vector_size(16)));
using Floats = float __attribute__((vector_size(16)));
using Shorts = int16_t __attribute__((vector_size(16)));

// Independent sums that hide the latency of an instruction that starts twice a cycle and takes up
// to 5; twice as many where there are registers for them.
constexpr int kSums = 10;
constexpr int kWideSums = 20;

// A function of instruction set `set`: `step` on each of `sums` independent sums of type V, with
// `factor` and `scratch` at hand, `rounds` times. Returns the operations on `lanes` lanes.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TENON_RATE(name, set, V, lanes, sums, step)              \
  set double name(uint64_t rounds) {                             \
    V all[sums] = {};                                            \
    V factor = {};                                               \
    [[maybe_unused]] V scratch = {};                             \
    for (uint64_t i = 0; i < rounds; ++i) {                      \
      _Pragma("GCC unroll 20") for (V & sum : all) {             \
        step;                                                    \
      }                                                          \
    }                                                            \
    return 2.0 * (lanes) * (sums) * static_cast<double>(rounds); \
  }
// NOLINTEND(bugprone-macro-parentheses)

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
#define TENON_PORTABLE_STEP(product) \
  TENON_KEEP(factor);                \
  sum = (product);                   \
  TENON_KEEP(sum)
TENON_RATE(fma_portable, , Floats, 4, kSums, TENON_PORTABLE_STEP(sum* factor + factor))
TENON_RATE(int8_portable, , Shorts, 8, kSums, TENON_PORTABLE_STEP(sum + factor * factor))

#if defined(__x86_64__)
// In assembly, so that the instruction is the one that is meant. %0 sum, %1 factor, %2 scratch.
#define TENON_ASM(instructions) \
  __asm__ volatile(instructions : "+v"(sum), "+v"(factor), "+v"(scratch))  // NOLINT
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

// Without VNNI a dot product takes three instructions.
#define TENON_DOT "vpmaddubsw %1, %1, %2\n vpmaddwd %1, %2, %2\n vpaddd %2, %0, %0"
TENON_RATE(fma_avx2, TENON_AVX2, Ymm, 8, kSums, TENON_ASM("vfmadd231ps %1, %1, %0"))
TENON_RATE(fma_avx512, TENON_AVX512, Zmm, 16, kWideSums, TENON_ASM("vfmadd231ps %1, %1, %0"))
TENON_RATE(int8_avx2, TENON_AVX2, Ymm, 32, kSums, TENON_ASM(TENON_DOT))
TENON_RATE(int8_avx_vnni, [[gnu::target("avx2,avxvnni")]], Ymm, 32, kSums,
           TENON_ASM("%{vex%} vpdpbusd %1, %1, %0"))
TENON_RATE(int8_avx512, TENON_AVX512, Zmm, 64, kWideSums, TENON_ASM(TENON_DOT))
TENON_RATE(int8_vnni, TENON_AVX512, Zmm, 64, kWideSums, TENON_ASM("vpdpbusd %1, %1, %0"))
TENON_RATE(bf16_avx512, TENON_AVX512, Zmm, 32, kWideSums, TENON_ASM("vdpbf16ps %1, %1, %0"))
#elif defined(__aarch64__)
#define TENON_ASM(instructions) \
  __asm__ volatile(instructions : "+w"(sum), "+w"(factor), "+w"(scratch))  // NOLINT
#define TENON_DOTPROD [[gnu::target("arch=armv8.2-a+dotprod")]]
#define TENON_BF16 [[gnu::target("arch=armv8.2-a+bf16")]]
#define TENON_I8MM [[gnu::target("arch=armv8.2-a+i8mm")]]

// Without dot products: two products of 16 bits in each lane before they are widened.
#define TENON_DOT "smull %2.8h, %1.8b, %1.8b\n smlal %2.8h, %1.8b, %1.8b\n sadalp %0.4s, %2.8h"
TENON_RATE(fma_neon, , Floats, 4, kWideSums, TENON_ASM("fmla %0.4s, %1.4s, %1.4s"))
TENON_RATE(int8_neon, , Words, 16, kWideSums, TENON_ASM(TENON_DOT))
TENON_RATE(int8_dotprod, TENON_DOTPROD, Words, 16, kWideSums,
           TENON_ASM("sdot %0.4s, %1.16b, %1.16b"))
TENON_RATE(bf16_neon, TENON_BF16, Words, 8, kWideSums, TENON_ASM("bfdot %0.4s, %1.8h, %1.8h"))
TENON_RATE(int8_i8mm, TENON_I8MM, Words, 32, kWideSums, TENON_ASM("smmla %0.4s, %1.16b, %1.16b"))
#endif

}  // namespace

LimitKernels limit_kernels(CpuFeatures isa) {
  LimitKernels kernels{&read_portable, &fma_portable, nullptr, &int8_portable};
#if defined(__x86_64__)
  if (isa.has(CpuFeature::avx2)) kernels = {&read_avx2, &fma_avx2, nullptr, &int8_avx2};
  if (isa.has_all(kCpuAvxVnni)) kernels.int8 = &int8_avx_vnni;
  if (isa.has(CpuFeature::avx512)) kernels = {&read_avx512, &fma_avx512, nullptr, &int8_avx512};
  if (isa.has(CpuFeature::avx512_vnni)) kernels.int8 = &int8_vnni;
  if (isa.has(CpuFeature::avx512_bf16)) kernels.bf16 = &bf16_avx512;
#elif defined(__aarch64__)
  if (isa.has(CpuFeature::neon)) kernels = {&read_portable, &fma_neon, nullptr, &int8_neon};
  if (isa.has_all(kCpuNeonDotprod)) kernels.int8 = &int8_dotprod;
  if (isa.has_all(kCpuNeonI8mm)) kernels.int8 = &int8_i8mm;
  if (isa.has_all(kCpuNeonBf16)) kernels.bf16 = &bf16_neon;
#else
  (void)isa;
#endif
  return kernels;
}

}  // namespace tenon
