// What latent attention does beside the attention half's other operations (LatentAttentionPlan).
#include <array>
#include <cstring>

#include "core/exec/cpu/step/worker.h"

namespace tenon {

void CpuWorker::latent_qkv(uint32_t layer) {
  const PackedLayer& w = step_.weights.layer(layer);
  const LayerWeights& b = vectors(layer);
  const CpuBuffers& to = step_.buffers;
  const bool two_steps = plan(layer).latent.q_rank > 0;
  const bool index = plan(layer).index.heads > 0;
  std::array<Product, kMostProducts> products;
  size_t count = 0;
  products[count++] = {&w[&LayerWeights::kv_a], b.kv_a_bias, to.k.floats()};
  products[count++] = {two_steps ? &w[&LayerWeights::q_a] : &w[&LayerWeights::q], b.q_a_bias,
                       (two_steps ? to.low : to.expanded).floats()};
  if (index) {
    products[count++] = {&w[&LayerWeights::index_k], {}, step_.index.k.floats()};
    products[count++] = {&w[&LayerWeights::index_weights], {}, step_.index.weights.floats()};
  } else if (plan(layer).attention.output_gate) {
    products[count++] = {&w[&LayerWeights::output_gate], {}, to.attention_gate.floats()};
  }
  multiply(input(plan(layer).attention_norm), std::span(products).first(count));
  if (alone()) {
    std::memcpy(own_k_.data(), to.k.data(), own_k_.bytes());
    if (two_steps) std::memcpy(own_low_.data(), to.low.data(), own_low_.bytes());
  }
  latent_norms(layer);
  if (two_steps) {
    count = 0;
    products[count++] = {&w[&LayerWeights::q], {}, to.expanded.floats()};
    if (index) products[count++] = {&w[&LayerWeights::index_q], {}, step_.index.q.floats()};
    multiply(low(), std::span(products).first(count));
  }
  if (alone()) std::memcpy(own_expanded_.data(), to.expanded.data(), own_expanded_.bytes());
}

// The rows of `prepare`'s slices, which follows without a barrier.
void CpuWorker::latent_norms(uint32_t layer) {
  const LayerWeights& w = vectors(layer);
  const LatentAttentionPlan& latent = plan(layer).latent;
  const Share mine = share_of(rows_, alone() ? Slice{} : slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* of_k = k() + row * latent.row_dim();
    norm_row(latent.norm, of_k, w.kv_a_norm.data(), nullptr, latent.kv_rank, of_k);
    if (latent.kv_scale != 1.0f) {
      step_.ops->scale_and_cap(of_k, latent.kv_scale, 0.0f, latent.kv_rank);
    }
    if (latent.q_rank == 0) continue;
    float* of_q = low() + row * latent.q_rank;
    norm_row(latent.norm, of_q, w.q_a_norm.data(), nullptr, latent.q_rank, of_q);
  }
}

// The last elements of the heads of q and of the row, by the worker that normed it.
void CpuWorker::rotate_latent(uint32_t layer) {
  const LatentAttentionPlan& latent = plan(layer).latent;
  const SelfAttentionPlan& attention = plan(layer).attention;
  const CpuRope& rope = step_.ropes[static_cast<size_t>(attention.rope)];
  const auto turn = rope.pairs ? step_.ops->rotate_pairs : step_.ops->rotate_halves;
  const Share mine = share_of(rows_, alone() ? Slice{} : slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    const float* angles = rope.angles + row * 2 * rope.half;
    turn(angles, angles + rope.half, rope.half, k() + row * latent.row_dim() + latent.kv_rank);
    for (uint64_t head = row * attention.heads; head < (row + 1) * attention.heads; ++head) {
      turn(angles, angles + rope.half, rope.half,
           expanded() + head * latent.q_dim() + latent.nope_dim);
    }
  }
}

// The turned elements are copied beside what the products make of the others.
void CpuWorker::absorb(uint32_t layer) {
  const LatentAttentionPlan& latent = plan(layer).latent;
  const uint64_t heads = plan(layer).attention.heads;
  float* q = step_.buffers.q.floats();
  // Where a worker has the row for itself it copies its share of the heads, else all of its rows.
  const Share mine = share_of(alone() ? heads : rows_, slice_);
  const uint64_t step = alone() ? 1 : heads;
  for (uint64_t item = mine.first * step; item < mine.last * step; ++item) {
    std::memcpy(q + item * latent.row_dim() + latent.kv_rank,
                expanded() + item * latent.q_dim() + latent.nope_dim,
                latent.rope_dim * sizeof(float));
  }
  multiply_heads(step_.weights.layer(layer).k_absorb,
                 {expanded(), latent.q_dim(), heads * latent.q_dim()},
                 {q, latent.row_dim(), heads * latent.row_dim()});
}

void CpuWorker::expand(uint32_t layer) {
  if (rows_ == 0) return;
  const LatentAttentionPlan& latent = plan(layer).latent;
  const uint64_t heads = plan(layer).attention.heads;
  multiply_heads(step_.weights.layer(layer).v_expand,
                 {step_.buffers.attended.floats(), latent.kv_rank, heads * latent.kv_rank},
                 {step_.buffers.expanded.floats(), latent.v_dim, heads * latent.v_dim});
}

}  // namespace tenon
