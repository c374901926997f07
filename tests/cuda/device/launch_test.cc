// What a launch asks of the device that is current, over a runtime of two devices that stands in
// for CUDA's: the first is older than sm_90, the second is not.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

int launch_kernel();  // launch_kernel.cu

namespace {

int current = 0;
unsigned launch_attributes = 0;
int carveouts = 0;

}  // namespace

extern "C" {
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int device) {
  *value = device == 0 ? 8 : 9;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  ++carveouts;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void**) {
  launch_attributes = config->numAttrs;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
}

namespace {

TEST(CudaLaunch, overlaps_kernels_where_the_device_that_is_current_can) {
  for (const int device : {1, 0, 1, 0}) {
    current = device;
    carveouts = 0;
    ASSERT_EQ(launch_kernel(), 0);
    EXPECT_EQ(launch_attributes, device == 1 ? 1u : 0u) << "device " << device;
    EXPECT_EQ(carveouts, device == 1 ? 1 : 0) << "device " << device;
  }
}

}  // namespace
