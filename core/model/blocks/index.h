// An index of positions: which of those that a row sees it attends to.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/blocks/norm.h"
#include "core/model/blocks/weight.h"

namespace tenon {

// The lightning indexer of DeepSeek-V3.2 (DeepSeek Sparse Attention), next to latent attention with
// a q of two steps. With q_h of `heads` heads made of the same low rank as attention's q, one
// k = norm(Wk x) a token, and a weight of each head, Ww x, the row at t gives the position s
//
//   score(t, s) = Σ_h w_h(t) · max(0, q_h(t) · k(s))
//
// and attends to the `chosen` positions with the highest scores; of equal ones to the first. The
// first elements of q_h and k turn, by attention's rotary setting. The factor on scores in the
// reference, 1 / sqrt(heads · dim), changes no choice.
struct IndexPlan {
  uint32_t chosen = 0;  // 0: the layer attends to all that it sees
  uint32_t heads = 0;   // 0: it takes the choice of the last layer before it that makes one
  uint32_t dim = 0;
  uint32_t rope_dim = 0;
  bool pairs = false;  // neighbours turn together
  NormPlan norm;       // of k

  explicit operator bool() const { return chosen > 0; }
  friend bool operator==(const IndexPlan&, const IndexPlan&) = default;
};

template <>
struct PlanFields<IndexPlan> {
  using P = IndexPlan;
  static constexpr void list(auto field) {
    field(&P::chosen, "the positions that an index chooses", "'index_topk'; 0: no index");
    field(&P::heads, "the heads of the index", "'index_n_heads'; 0: a choice is shared");
    field(&P::dim, "the width of the index", "'index_head_dim'");
    field(&P::rope_dim, "the part of the index that turns", "'qk_rope_head_dim'");
    field(&P::pairs, "whether neighbours of the index turn together", "'model_type'");
    field(&P::norm, "the norm of the index", "");
  }
};

struct IndexWeights {
  Weight index_q;                                      // [heads · dim, q_rank]
  Weight index_k;                                      // [dim, hidden]
  Weight index_weights;                                // [heads, hidden]
  std::vector<float> index_k_norm, index_k_norm_bias;  // [dim]
};

}  // namespace tenon
