// The launch of launch_test.cc, by nvcc.
#include <tenon/cuda/machine.h>

namespace {
__global__ void kernel() {}
}  // namespace

int launch_kernel() {
  return tenon::cuda::launch({.name = "kernel", .shared_percent = 50, .overlaps = true}, kernel);
}
