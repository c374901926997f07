// Latent attention: K and V of all heads follow from one row a token.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/blocks/norm.h"
#include "core/model/blocks/weight.h"

namespace tenon {

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): K and V of all heads
// follow from one row a token, c = norm(Wc · x) of `kv_rank` elements with one rotated k of
// `rope_dim` behind it, which is what the cache keeps. Heads of q are q_nope and q_rope side by
// side:
//
//   k = (Wuk · c, k_rope)    v = Wuv · c    q · k = q_nope · Wuk · c + q_rope · k_rope
//
// so that (Wukᵀ · q_nope, q_rope) is a query of the row itself (absorbed), and what the softmax
// makes of the rows' c becomes a head's output by Wuv.
struct LatentAttentionPlan {
  uint32_t q_rank = 0;   // q = Wqb · norm(Wqa · x); 0: one product
  uint32_t kv_rank = 0;  // 0: the layer has none of this
  uint32_t nope_dim = 0;
  uint32_t rope_dim = 0;
  uint32_t v_dim = 0;
  NormPlan norm;          // of c, and of what q is made of
  bool bias = false;      // of Wqa and Wc
  float kv_scale = 1.0f;  // on c, behind its norm

  uint32_t q_dim() const { return nope_dim + rope_dim; }
  uint32_t row_dim() const { return kv_rank + rope_dim; }
  explicit operator bool() const { return kv_rank > 0; }
  friend bool operator==(const LatentAttentionPlan&, const LatentAttentionPlan&) = default;
};

template <>
struct PlanFields<LatentAttentionPlan> {
  using P = LatentAttentionPlan;
  static constexpr void list(auto field) {
    field(&P::q_rank, "the rank of q", "'q_lora_rank'; 0: none");
    field(&P::kv_rank, "the rank of K and V", "'kv_lora_rank'; 0: none");
    field(&P::nope_dim, "the part of heads that stays", "'qk_nope_head_dim'");
    field(&P::rope_dim, "the part of heads that turns", "'qk_rope_head_dim'");
    field(&P::v_dim, "the width of V", "'v_head_dim'");
    field(&P::norm, "the norm of low ranks", "");
    field(&P::bias, "the bias of low ranks", "'attention_bias'");
    field(&P::kv_scale, "the factor on the latent row", "the family");
  }
};

// Beside AttentionWeights, of which q is [heads · (nope + rope), q_rank or hidden] and output
// [hidden, heads · v].
struct LatentWeights {
  std::vector<float> q_a_norm, kv_a_norm;  // [q_rank], [kv_rank]
  std::vector<float> q_a_bias, kv_a_bias;
  Weight q_a, kv_a;              // [q_rank, hidden], [kv_rank + rope, hidden]
  std::vector<Weight> k_absorb;  // [heads] of [kv_rank, nope]: Wukᵀ
  std::vector<Weight> v_expand;  // [heads] of [v, kv_rank]: Wuv
};

}  // namespace tenon
