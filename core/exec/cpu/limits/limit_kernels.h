// The instruction streams whose rates are measured: registers only, enough independent sums to
// hide latencies, no memory. Each returns the operations it did.
#pragma once

#include <tenon/host.h>

#include <cstddef>
#include <cstdint>

namespace tenon {

using RateKernel = double (*)(uint64_t rounds);
// Reads [from, from + bytes), a multiple of 1024 bytes aligned to 64, and returns something made of
// all of it.
using ReadKernel = uint64_t (*)(const std::byte* from, size_t bytes);

struct LimitKernels {
  ReadKernel read = nullptr;
  RateKernel fma = nullptr;
  RateKernel bf16 = nullptr;  // null where the set has no bf16 dot product
  RateKernel int8 = nullptr;
};

LimitKernels limit_kernels(CpuFeatures isa);

}  // namespace tenon
