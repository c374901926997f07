// A block of attention and an MLP that several layers share, each before its recurrence.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/blocks/norm.h"
#include "core/model/blocks/weight.h"

namespace tenon {

// Zamba 2's (arXiv:2411.15242). With x the stream, e what entered the first layer, and [x, e] both
// side by side, a layer that has such a block computes
//
//   t = link · mlp(mlp_norm(attention(norm([x, e]))))
//   x += recurrence(attention_norm(x + t))
//
// Neither half of the block adds to the stream. Layers that share a block have its matrices once,
// and matrices of low rank of their own next to those that make q, k and v and those of the MLP's
// gate and up: W · x + high · (low · x).
struct SharedBlockPlan {
  uint32_t use = 0;         // counted from 1 over the layers that have a block; 0: none
  int32_t from_layer = -1;  // the earlier layer that has the block's tensors; -1: this one
  uint32_t qkv_rank = 0;    // 0: q, k and v have nothing of low rank
  uint32_t mlp_rank = 0;    // likewise gate and up
  NormPlan norm;

  explicit operator bool() const { return use > 0; }
  bool borrows() const { return from_layer >= 0; }
  friend bool operator==(const SharedBlockPlan&, const SharedBlockPlan&) = default;
};

template <>
struct PlanFields<SharedBlockPlan> {
  using P = SharedBlockPlan;
  static constexpr void list(auto field) {
    field(&P::use, "which layer with a shared block it is", "'layers_block_type'; 0: none");
    field(&P::from_layer, "the layer with the shared block's tensors",
          "'num_mem_blocks'; -1: its own");
    field(&P::qkv_rank, "the rank of what it adds to a shared block's q, k and v",
          "'adapter_rank', 'use_shared_attention_adapter'; 0: nothing");
    field(&P::mlp_rank, "the rank of what it adds to a shared block's MLP",
          "'adapter_rank'; 0: nothing");
    field(&P::norm, "the norm before a shared block", "");
  }
};

struct SharedBlockWeights {
  std::vector<float> block_norm;           // [2 · hidden]
  Weight own_q_low, own_k_low, own_v_low;  // [qkv_rank, 2 · hidden]
  Weight own_q_high, own_k_high;           // [heads or kv_heads · head_dim, qkv_rank]
  Weight own_v_high;                       // [kv_heads · v_dim, qkv_rank]
  Weight own_mlp_low;                      // [mlp_rank, hidden]
  Weight own_gate_high, own_up_high;       // [MLP width, mlp_rank]
  Weight block_link;                       // [hidden, hidden]
};

}  // namespace tenon
