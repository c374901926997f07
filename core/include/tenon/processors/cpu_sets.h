// Named instruction sets that host.h does not name: AVX-VNNI, and those of AArch64.
#pragma once

#include <tenon/host.h>

namespace tenon {

// What a processor must have for code of each set.
inline constexpr CpuFeatures kCpuAvxVnni = {CpuFeature::avx2, CpuFeature::avx_vnni};
inline constexpr CpuFeatures kCpuNeon = {CpuFeature::neon};
inline constexpr CpuFeatures kCpuNeonDotprod = {CpuFeature::neon, CpuFeature::dotprod};
inline constexpr CpuFeatures kCpuNeonI8mm = {CpuFeature::neon, CpuFeature::dotprod,
                                             CpuFeature::i8mm};
inline constexpr CpuFeatures kCpuNeonBf16 = {CpuFeature::neon, CpuFeature::dotprod,
                                             CpuFeature::i8mm, CpuFeature::bf16};

}  // namespace tenon
