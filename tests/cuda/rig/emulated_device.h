// Arrays on the emulator, for tests of kernels; on a GPU where tests are compiled for one.
#pragma once

#include <gtest/gtest.h>
#ifdef TENON_CUDA_TESTS_ON_A_GPU
#include <tenon/cuda/machine.h>

#include "tests/cuda/device/real_device.h"
#else
#include <tenon/cuda/emulator.h>
#endif

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::cuda::test {

#ifdef TENON_CUDA_TESTS_ON_A_GPU
using EmulatedDevice = RealDevice;
#else
// What a kernel wrote that had findings means nothing: they are failures of the test.
class EmulatedDevice {
 public:
  explicit EmulatedDevice(uint64_t seed = 1) : machine_(seed) {}
  ~EmulatedDevice() {
    for (const Finding& finding : machine_.findings()) ADD_FAILURE() << finding.message();
  }

  // Constant for kernels.
  template <typename T>
  const T* upload(const std::vector<T>& values, const std::string& name) {
    T* at = make<T>(values.size(), name);
    machine_.copy_in(at, values.data(), values.size() * sizeof(T), Content::constant);
    return at;
  }
  template <typename T>
  T* upload_variable(const std::vector<T>& values, const std::string& name) {
    T* at = make<T>(values.size(), name);
    machine_.copy_in(at, values.data(), values.size() * sizeof(T));
    return at;
  }
  // Nothing stands there.
  template <typename T>
  T* make(uint64_t count, const std::string& name) {
    return reinterpret_cast<T*>(machine_.allocate(count * sizeof(T), name));
  }
  template <typename T>
  std::vector<T> download(const T* from, uint64_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(machine_.copy_out(values.data(), from, count * sizeof(T)));
    return values;
  }
  Emulator& machine() { return machine_; }

 private:
  Emulator machine_;
};
#endif

// Numbers in [-1, 1) that follow from the seed.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  uint32_t below(uint32_t count) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state_ >> 33) % count);
  }
  float next() { return static_cast<float>(below(1u << 24)) / static_cast<float>(1u << 23) - 1.0f; }
  std::vector<float> many(uint64_t count) {
    std::vector<float> values(count);
    for (float& x : values) x = next();
    return values;
  }

 private:
  uint64_t state_;
};

inline std::vector<BFloat16> rounded(const std::vector<float>& values) {
  std::vector<BFloat16> result;
  for (const float x : values) result.push_back(to_bfloat16(x));
  return result;
}
inline std::vector<float> widened(const std::vector<BFloat16>& values) {
  std::vector<float> result;
  for (const BFloat16 x : values) result.push_back(to_float(x));
  return result;
}

}  // namespace tenon::cuda::test
