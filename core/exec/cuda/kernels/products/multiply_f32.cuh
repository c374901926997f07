// Products in f32, the path that rounds nothing: a thread an element, one product after the other.
// Not made to be fast. Grid: rows, columns: of rows there may be more than 65,535.
#pragma once

#include "core/exec/cuda/kernels/products/multiply.cuh"

namespace tenon::cuda {

TENON_DEVICE void multiply_element(const Factors<float>& f, int64_t from, int64_t to, int column) {
  float sum = 0.0f;
  for (int k = 0; k < f.k_in; ++k) {
    sum = fmaf(f.x[from * f.x_stride + k], f.w[static_cast<int64_t>(column) * f.w_stride + k], sum);
  }
  put_product(f, to, column, sum);
}

__global__ void multiply_f32(Factors<float> f) {
  let_next_start();
  wait_for_earlier();
  const int column = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (column < f.n_out) multiply_element(f, blockIdx.x, blockIdx.x, column);
}

__global__ void multiply_heads_f32(Factors<float> f, HeadStrides heads) {
  let_next_start();
  wait_for_earlier();
  const int column = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  choose_head(f, heads);
  if (column < f.n_out) multiply_element(f, blockIdx.x, blockIdx.x, column);
}

// Grid: places, columns.
__global__ void multiply_experts_f32(Factors<float> f) {
  let_next_start();
  wait_for_earlier();
  const int column = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (column >= f.n_out) return;
  choose_matrix(f, uint32_t{f.by.experts[blockIdx.x]});
  multiply_element(f, blockIdx.x / f.by.each, blockIdx.x, column);
}

}  // namespace tenon::cuda
