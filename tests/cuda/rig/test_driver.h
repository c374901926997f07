// What tests load the executor with: a driver over the emulator and cuBLASLt's double, or a GPU's
// where tests are compiled for one. What only the emulator can say, tests ask it alone
// (TENON_CUDA_TESTS_ON_A_GPU).
#pragma once

#ifdef TENON_CUDA_TESTS_ON_A_GPU
#include "tests/cuda/device/real_driver.h"
#else
#include "tests/cuda/rig/cublaslt_double.h"
#include "tests/cuda/rig/emulated_driver.h"
#endif

#include <cstdint>

namespace tenon::cuda::test {

#ifdef TENON_CUDA_TESTS_ON_A_GPU
using TestDriver = RealDriver;
using TestGuest = RealGuest;
// A graph may be charged 64 KiB a launch (runtime_driver.cc).
inline constexpr uint64_t kGraphRoom = uint64_t{256} << 20;
#else
using TestDriver = EmulatedDriver;
using TestGuest = CublasLtDouble;
inline constexpr uint64_t kGraphRoom = uint64_t{1} << 20;
#endif

}  // namespace tenon::cuda::test
