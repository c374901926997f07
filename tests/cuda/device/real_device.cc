// CUDA's own header and the host body of machine.h do not go together: this includes the former,
// and tests the latter.
#include "tests/cuda/device/real_device.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

namespace tenon::cuda::test {
namespace {

constexpr int kNothing = 0xfb;

void expect(cudaError_t error) {
  EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

}  // namespace

RealDevice::~RealDevice() {
  expect(cudaDeviceSynchronize());
  for (void* at : all_) expect(cudaFree(at));
}

void* RealDevice::allocate(uint64_t bytes) {
  void* at = nullptr;
  expect(cudaMalloc(&at, bytes));
  expect(cudaMemset(at, kNothing, bytes));
  all_.push_back(at);
  return at;
}

void RealDevice::send(void* to, const void* from, uint64_t bytes) {
  expect(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}

void RealDevice::fetch(void* to, const void* from, uint64_t bytes) {
  expect(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

}  // namespace tenon::cuda::test
