// What kernels of more than one file compute of rows. Kernels themselves stand in headers that one
// source includes: nvcc makes a function for the host of each.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/elements.cuh"
#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

// The sum over a warp's lanes, in a butterfly.
TENON_DEVICE float warp_sum(float x) {
  for (int with = 16; with > 0; with /= 2) x += __shfl_xor_sync(kAllLanes, x, with);
  return x;
}

// The sum over a block's threads, the same number in all of them: lanes in a butterfly, then warps
// in order. `sums` has a place for each warp.
TENON_DEVICE float block_sum(float x, Shared<float> sums) {
  x = warp_sum(x);
  __syncthreads();  // of the sum before
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) sums[warp] = x;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < kRowThreads / 32; ++i) sum += sums[i];
  return sum;
}

// The sum over the `threads` of a row, a warp or all of a block, the same number in all of them:
// lanes in a butterfly, then warps in one. `sums` has a place for each warp and is not written
// again.
TENON_DEVICE float row_sum(float x, Shared<float> sums, int threads) {
  x = warp_sum(x);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int warps = threads / static_cast<int>(kWarp);
  if (warps == 1) return x;
  if (lane == 0) sums[static_cast<int>(threadIdx.x / kWarp)] = x;
  __syncthreads();
  return warp_sum(lane < warps ? float{sums[lane]} : 0.0f);
}

TENON_DEVICE float activate(ActivationKind kind, float x) {
  switch (kind) {
    case ActivationKind::silu:
      return x / (1.0f + expf(-x));
    case ActivationKind::gelu:
      return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case ActivationKind::gelu_tanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case ActivationKind::relu:
      return fmaxf(x, 0.0f);
    case ActivationKind::relu_squared:
      return fmaxf(x, 0.0f) * fmaxf(x, 0.0f);
  }
  return x;
}

TENON_DEVICE float limited_swiglu(const SwigluLimit& by, float gate, float up) {
  const float g = fminf(gate, by.limit);
  const float u = fminf(fmaxf(up, -by.limit), by.limit);
  return g / (1.0f + expf(-by.alpha * g)) * (u + 1.0f);
}

}  // namespace tenon::cuda
