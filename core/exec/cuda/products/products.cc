// Products by weights.
#include "core/exec/cuda/step/step.h"

namespace tenon::cuda {

QuantScales scales_of(const DeviceMatrix& w) {
  return {w.scales, w.zeros, w.groups, w.group, w.bits, w.rows, w.floats};
}

MultiplyCall CudaStep::multiply_call(const DeviceMatrix& w, const float* bias, const void* x,
                                     uint32_t rows, float* y) {
  MultiplyCall call = {};
  call.x = x;
  call.w = w.data;
  call.bias = bias;
  call.y = y;
  call.rows = rows;
  call.n_out = w.n_out;
  call.k_in = w.k_in;
  call.x_stride = DeviceWeights::input_stride(static_cast<uint32_t>(w.k_in));
  call.w_stride = w.stride;
  call.y_stride = w.n_out;
  return call;
}

void CudaStep::multiply(const DeviceMatrix& w, const MultiplyCall& call, const GatedOutput& gated) {
  if (w.bits == 0 && guest_ && CublasLtProducts::takes(call)) {
    return keep(guest_->multiply(weights_.type(), call));
  }
  if (w.bits == 0) {
    return keep(launch_multiply(driver_.stream(), weights_.type(), call), "a product");
  }
  keep(launch_multiply_quant(driver_.stream(), {call, scales_of(w), gated}),
       "a product with packed weights");
}

void CudaStep::multiply(const DevicePart& w, const void* x, float* y) {
  multiply(w.matrix, w.bias, x, rows_, y);
}

void CudaStep::multiply(const DeviceMatrix& w, const float* bias, const void* x, uint32_t rows,
                        float* y, bool add, float factor) {
  if (w.starts != nullptr) return multiply_cut(w, bias, x, rows, y, add, factor);
  MultiplyCall call = multiply_call(w, bias, x, rows, y);
  call.add = add;
  call.factor = factor;
  multiply(w, call);
}

int CudaStep::multiply_all(const DeviceStack& stack, const void* x, float* y) {
  int width = 0;
  for (const DevicePart& part : stack.parts) width += part.matrix.n_out;
  const bool guests = guest_ && stack.matrix.bits == 0;
  if (stack.matrix.n_out > 0 && !guests) {
    multiply(stack.matrix, stack.bias, x, rows_, y);
    return width;
  }
  for (const DevicePart& part : stack.parts) {
    if (part.matrix.n_out == 0) continue;
    MultiplyCall call = multiply_call(part.matrix, part.bias, x, rows_, y);
    call.y_stride = width;
    multiply(part.matrix, call);
    y += part.matrix.n_out;
  }
  return width;
}

}  // namespace tenon::cuda
