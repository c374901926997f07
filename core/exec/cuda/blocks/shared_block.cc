// A block that layers share (SharedBlockPlan).
#include <algorithm>

#include "core/exec/cuda/step/step.h"

namespace tenon::cuda {
namespace {

// The largest of all layers, of a row.
struct SharedWidths {
  uint64_t stream = 0, low = 0;  // numbers
  uint64_t low_bytes = 0;        // of an input

  SharedWidths(const ModelPlan& plan, Input type) {
    for (const LayerPlan& layer : plan.layers) {
      const SharedBlockPlan& own = layer.shared;
      if (!own) continue;
      stream = plan.hidden;
      low = std::max({low, 3 * uint64_t{own.qkv_rank}, uint64_t{own.mlp_rank}});
      const int widest = DeviceWeights::input_stride(std::max(own.qkv_rank, own.mlp_rank));
      const uint64_t element = type == Input::f32 ? sizeof(float) : sizeof(uint16_t);
      low_bytes = std::max(low_bytes, static_cast<uint64_t>(widest) * element);
    }
  }
};

}  // namespace

uint64_t SharedArrays::bytes_for(const ModelPlan& plan, uint64_t rows, Input type) {
  const SharedWidths widths(plan, type);
  return rows * ((3 * widths.stream + widths.low) * sizeof(float) + widths.low_bytes);
}

Status SharedArrays::allocate(const ModelPlan& plan, uint64_t rows, Input type,
                              DeviceMemory& memory) {
  const SharedWidths widths(plan, type);
  const char* const what = "activations of shared blocks";
  TENON_ASSIGN_OR_RETURN(kept, memory.array<float>(rows * widths.stream, what));
  TENON_ASSIGN_OR_RETURN(beside, memory.array<float>(rows * 2 * widths.stream, what));
  TENON_ASSIGN_OR_RETURN(low, memory.array<float>(rows * widths.low, what));
  TENON_ASSIGN_OR_RETURN(low_input, memory.bytes(rows * widths.low_bytes, what));
  return {};
}

void CudaStep::take_stream(const float* from, float* to, uint32_t stride) {
  const auto width = static_cast<int>(setup_.model->plan.hidden);
  keep(launch_take_rows(driver_.stream(), from, nullptr, to, Input::f32, rows_, width,
                        static_cast<int>(stride)),
       "the stream of a shared block");
}

void CudaStep::enter_block(uint32_t layer) {
  const uint32_t width = setup_.model->plan.hidden;
  const NormPlan& norm = plan(layer).shared.norm;
  take_stream(hidden_, shared_.kept, width);
  take_stream(hidden_, shared_.beside, 2 * width);
  take_stream(embedded_, shared_.beside + width, 2 * width);
  NormShape shape;
  shape.rows = rows_;
  shape.width = static_cast<int>(2 * width);
  shape.out_stride = DeviceWeights::input_stride(2 * width);
  shape.eps = norm.eps;
  shape.centered = norm.kind == NormKind::layer;
  keep(launch_norm(driver_.stream(), shared_.beside, block_weights(layer).shared.norm, nullptr,
                   joined_, weights_.type(), shape),
       "the norm of a shared block");
}

// y [rows, stride] += high · (low · x), of which low · x is there, one of those side by side.
void CudaStep::add_high(const DeviceMatrix& high, const float* low, int low_stride, float* y,
                        int stride) {
  const auto rank = static_cast<uint32_t>(high.k_in);
  keep(launch_take_rows(driver_.stream(), low, nullptr, shared_.low_input, weights_.type(), rows_,
                        high.k_in, DeviceWeights::input_stride(rank), low_stride),
       "an input of low rank");
  MultiplyCall call = multiply_call(high, nullptr, shared_.low_input, rows_, y);
  call.y_stride = stride;
  call.add = true;
  call.factor = 1.0f;
  multiply(high, call);
}

void CudaStep::add_low_qkv(uint32_t layer) {
  const DeviceSharedBlock& own = weights_.layers[layer].shared;
  const Heads heads = heads_of(layer);
  const int stride = multiply_all(own.qkv_low, joined_, shared_.low);
  const int rank = stride / 3;
  add_high(own.q_high, shared_.low, stride, heads.q, heads.q_stride);
  add_high(own.k_high, shared_.low + rank, stride, heads.k, heads.kv_stride);
  add_high(own.v_high, shared_.low + 2 * rank, stride, heads.v, heads.kv_stride);
}

void CudaStep::add_low_mlp(uint32_t layer, int stride) {
  const DeviceSharedBlock& own = weights_.layers[layer].shared;
  const auto rank = static_cast<int>(plan(layer).shared.mlp_rank);
  multiply(own.mlp_low, nullptr, normed_, rows_, shared_.low);
  add_high(own.gate_high, shared_.low, rank, gate_up_, stride);
  add_high(own.up_high, shared_.low, rank, gate_up_ + plan(layer).mlp.width, stride);
}

void CudaStep::leave_block(uint32_t layer) {
  input_of(false);
  take_stream(shared_.kept, hidden_, setup_.model->plan.hidden);
  multiply(weights_.layers[layer].shared.link, nullptr, normed_, rows_, hidden_, true);
}

void CudaStep::leave_kept(uint32_t) {
  take_stream(shared_.kept, hidden_, setup_.model->plan.hidden);
}

}  // namespace tenon::cuda
