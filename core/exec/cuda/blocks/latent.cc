// Layers with latent attention (LatentAttentionPlan): what stands between their weights and the one
// row a token that the cache keeps.
#include <algorithm>
#include <utility>

#include "core/exec/cuda/step/step.h"

namespace tenon::cuda {
namespace {

// The largest of all layers, of a row.
struct LatentWidths {
  uint64_t expanded = 0, low = 0;        // numbers
  uint64_t heads_in = 0, low_input = 0;  // elements of inputs

  explicit LatentWidths(const ModelPlan& plan) {
    const auto stride = [](uint32_t width) {
      return static_cast<uint64_t>(DeviceWeights::input_stride(width));
    };
    for (const LayerPlan& layer : plan.layers) {
      const LatentAttentionPlan& own = layer.latent;
      if (!own) continue;
      const uint64_t heads = layer.attention.heads;
      expanded = std::max(expanded, heads * std::max(own.q_dim(), own.v_dim));
      heads_in = std::max(heads_in, heads * stride(own.nope_dim));
      low = std::max<uint64_t>(low, own.q_rank);
      low_input = std::max(low_input, stride(own.q_rank));
    }
  }
};

uint64_t input_bytes(Input type) {
  return type == Input::f32 ? sizeof(float) : sizeof(uint16_t);
}

}  // namespace

uint64_t LatentArrays::bytes_for(const ModelPlan& plan, uint64_t rows, Input type) {
  const LatentWidths widths(plan);
  return rows * ((widths.expanded + widths.low) * sizeof(float) +
                 (widths.heads_in + widths.low_input) * input_bytes(type));
}

Status LatentArrays::allocate(const ModelPlan& plan, uint64_t rows, Input type,
                              DeviceMemory& memory) {
  const LatentWidths widths(plan);
  const char* const what = "activations of latent attention";
  TENON_ASSIGN_OR_RETURN(expanded, memory.array<float>(rows * widths.expanded, what));
  TENON_ASSIGN_OR_RETURN(low, memory.array<float>(rows * widths.low, what));
  const std::pair<void**, uint64_t> inputs[] = {{&heads_in, widths.heads_in},
                                                {&low_input, widths.low_input}};
  for (const auto& [made, width] : inputs) {
    TENON_ASSIGN_OR_RETURN(*made, memory.bytes(rows * width * input_bytes(type), what));
  }
  return {};
}

void CudaStep::latent_qkv(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  const LatentAttentionPlan& latent = plan(layer).latent;
  const auto norm_rows = [&](const float* from, const float* weight, uint32_t width, int x_stride,
                             void* to, Input type, int out_stride) {
    NormShape shape;
    shape.rows = rows_;
    shape.width = static_cast<int>(width);
    shape.x_stride = x_stride;
    shape.out_stride = out_stride;
    shape.eps = latent.norm.eps;
    shape.centered = latent.norm.kind == NormKind::layer;
    keep(launch_norm(driver_.stream(), from, weight, nullptr, to, type, shape),
         "a norm of latent attention");
  };
  const auto row = static_cast<int>(latent.row_dim());
  float* const k = heads_of(layer).k;
  multiply(w.kv_a, w.kv_a_bias, normed_, rows_, k);
  norm_rows(k, w.kv_a_norm, latent.kv_rank, row, k, Input::f32, row);
  if (latent.q_rank == 0) return multiply(w.qkv.parts[0], normed_, latent_.expanded);
  multiply(w.q_a, w.q_a_bias, normed_, rows_, latent_.low);
  norm_rows(latent_.low, w.q_a_norm, latent.q_rank, 0, latent_.low_input, weights_.type(),
            DeviceWeights::input_stride(latent.q_rank));
  multiply(w.qkv.parts[0], latent_.low_input, latent_.expanded);
}

void CudaStep::multiply_heads(const DeviceMatrix& w, uint32_t heads, const void* x, int x_head,
                              float* y, int y_head) {
  MultiplyCall call = multiply_call(w, nullptr, x, rows_, y);
  const auto count = static_cast<int>(heads);
  call.x_stride = count * x_head;
  call.y_stride = count * y_head;
  keep(launch_multiply_heads(driver_.stream(), weights_.type(), call,
                             {heads, x_head, w.n_out * w.stride, y_head}),
       "a product of heads");
}

// q_nope becomes a query of the cache's rows, with q_rope behind it.
void CudaStep::absorb(uint32_t layer) {
  const LatentAttentionPlan& latent = plan(layer).latent;
  const uint32_t heads = plan(layer).attention.heads;
  const auto take = [&](const float* from, void* to, Input type, uint32_t width, int to_stride) {
    keep(launch_take_rows(driver_.stream(), from, nullptr, to, type, rows_ * heads,
                          static_cast<int>(width), to_stride, static_cast<int>(latent.q_dim())),
         "a part of heads");
  };
  const auto row = static_cast<int>(latent.row_dim());
  const int nope = DeviceWeights::input_stride(latent.nope_dim);
  take(latent_.expanded, latent_.heads_in, weights_.type(), latent.nope_dim, nope);
  multiply_heads(weights_.layers[layer].k_absorb, heads, latent_.heads_in, nope, qkv_, row);
  take(latent_.expanded + latent.nope_dim, qkv_ + latent.kv_rank, Input::f32, latent.rope_dim, row);
}

// What the softmax makes of rows becomes the heads' output, which the next product reads.
void CudaStep::expand(uint32_t layer) {
  const LatentAttentionPlan& latent = plan(layer).latent;
  const uint32_t heads = plan(layer).attention.heads;
  multiply_heads(weights_.layers[layer].v_expand, heads, attended_,
                 DeviceWeights::input_stride(latent.kv_rank), latent_.expanded,
                 static_cast<int>(latent.v_dim));
  const uint32_t width = heads * latent.v_dim;
  const ColumnStarts* const cut = attended_starts(layer);
  const int stride = cut != nullptr ? RankGather::stride(*cut) : DeviceWeights::input_stride(width);
  keep(launch_take_rows(driver_.stream(), latent_.expanded, nullptr,
                        cut != nullptr ? gather_.own() : attended_, weights_.type(), rows_,
                        static_cast<int>(width), stride),
       "the heads' output");
  if (cut == nullptr) return;
  gather(*cut, weights_.type(), rows_, attended_, DeviceWeights::input_stride(cut->back()));
}

}  // namespace tenon::cuda
