// Attention of heads to keys and values of their own.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/model/blocks/norm.h"
#include "core/model/blocks/weight.h"

namespace tenon {

// The norm of q and k, usually before the rotation: of each head with one weight for all, of each
// head with its own weight, or of all heads together.
enum class QkNormExtent : uint8_t { head, own_head, whole };

inline std::string_view name_of(QkNormExtent value) {
  constexpr std::array<std::string_view, 3> kNames = {
      "of each head, by one weight", "of each head, by its own weight", "of all heads together"};
  return kNames[static_cast<size_t>(value)];
}

// A factor on q that grows with the position, so that scores of long texts stay apart: 1 + beta ·
// ln(1 + ⌊(position + ahead) / tokens⌋), as Ministral 3, Mistral Small 4 and Llama 4 have it.
struct QGrowth {
  float beta = 0.0f;    // 0: none
  uint32_t tokens = 0;  // before them q is as it is
  uint32_t ahead = 0;   // Llama 4 counts positions from 1

  float at(uint32_t position) const;
  explicit operator bool() const { return beta != 0.0f; }
  friend bool operator==(const QGrowth&, const QGrowth&) = default;
};

template <>
struct PlanFields<QGrowth> {
  using P = QGrowth;
  static constexpr void list(auto field) {
    field(&P::beta, "the growth of q", "'llama_4_scaling_beta', 'attn_scale'; 0: none");
    field(&P::tokens, "the tokens before q grows",
          "'original_max_position_embeddings', 'floor_scale'");
    field(&P::ahead, "what is added to positions where q grows", "the family");
  }
};

// What the cache and its kernel see. A layer with latent attention is to them one KV head, whose
// rows all query heads read (LatentAttentionPlan).
struct SelfAttentionPlan {
  uint32_t heads = 0;  // 0: the layer does not attend
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;       // may differ from hidden / heads
  uint32_t v_head_dim = 0;     // of V and of what is attended; 0: head_dim
  uint32_t window_tokens = 0;  // 0 = unlimited
  // The window does not slide: a token sees those of its own chunk of window_tokens, up to itself.
  bool window_chunks = false;
  int32_t kv_from_layer = -1;  // the earlier layer whose K and V this one reads; -1: its own
  int32_t rope = 0;            // index in ModelPlan::ropes; -1: nothing turns here
  float scale = 0.0f;
  float soft_cap = 0.0f;        // 0 = none
  float alibi_max_bias = 0.0f;  // 0 = none; else biases that fall with distance, see alibi_slopes
  bool qkv_bias = false;
  bool output_bias = false;
  float clip = 0.0f;         // 0 = none; else q, k and v are held in [-clip, clip], behind the norm
  bool sinks = false;        // a learned score a head that takes part in the softmax only
  bool output_gate = false;  // what is attended is multiplied by σ of a product of its own
  bool gate_by_head = false;   // that has one number for each head, not for each element
  bool gate_bias = true;       // the gate has a bias where q has one
  bool gate_softplus = false;  // by ln(1 + e^x) of the product in place of σ
  // V is what the product of k makes, before its norm and rotation.
  bool k_is_v = false;
  // Above 0: each head of V is x / sqrt(mean(x²) + eps). This and k_is_v only with a norm of each
  // head of q and k.
  float v_norm_eps = 0.0f;
  float v_scale = 1.0f;  // on V, before it is kept
  NormPlan qk_norm;
  QkNormExtent qk_norm_extent = QkNormExtent::head;
  bool qk_norm_after_rope = false;
  QGrowth q_growth;
  float output_scale = 1.0f;  // on what is added to the stream
  // Of both scales, the part that is a factor on what q, k and v are made of. Biases are kept
  // divided by it.
  float input_scale = 1.0f;
  NormPlan attended_norm = {};  // of all heads together, before the output's product
  // To a score is added exp(rate · softplus(mask · V + bias)), a number of the key's KV head that
  // follows from V of all heads. It is kept as one more element of K, by which q has 1 / scale.
  bool learned_mask = false;

  uint32_t k_dim() const { return head_dim + (learned_mask ? 1 : 0); }  // of K as it is kept
  uint32_t q_width() const { return heads * head_dim; }
  uint32_t kv_width() const { return kv_heads * head_dim; }
  uint32_t v_dim() const { return v_head_dim > 0 ? v_head_dim : head_dim; }
  uint32_t v_width() const { return kv_heads * v_dim(); }
  uint32_t attended_width() const { return heads * v_dim(); }
  uint32_t gate_width() const { return !output_gate ? 0 : gate_by_head ? heads : attended_width(); }
  // Whether V is not what a product of its own makes.
  bool makes_v() const { return k_is_v || v_norm_eps > 0.0f; }
  friend bool operator==(const SelfAttentionPlan&, const SelfAttentionPlan&) = default;
};

template <>
struct PlanFields<SelfAttentionPlan> {
  using P = SelfAttentionPlan;
  static constexpr void list(auto field) {
    field(&P::heads, "the number of heads", "'num_attention_heads'");
    field(&P::kv_heads, "the number of KV heads", "'num_key_value_heads'");
    field(&P::head_dim, "the width of heads", "'head_dim'");
    field(&P::v_head_dim, "the width of V", "'v_head_dim'; 0: that of heads");
    field(&P::window_tokens, "the window", "'sliding_window', 'layer_types'; 0: none");
    field(&P::window_chunks, "whether the window is a chunk", "'attention_chunk_size'");
    field(&P::kv_from_layer, "the layer with the K and V", "'use_cla'; -1: its own");
    field(&P::rope, "the rotary setting", "'layer_types', 'no_rope_layers'; -1: nothing turns");
    field(&P::scale, "the factor on scores",
          "'query_pre_attn_scalar', 'attention_multiplier', 'softmax_scale', "
          "'scale_attn_weights', 'scale_attn_by_inverse_layer_idx'");
    field(&P::soft_cap, "the cap of scores", "'attn_logit_softcapping'; 0: none");
    field(&P::alibi_max_bias, "the largest bias by distance", "'alibi_bias_max'; 0: none");
    field(&P::qkv_bias, "the bias of q, k and v", "'attention_bias'");
    field(&P::output_bias, "the bias after attention", "'attention_bias'");
    field(&P::clip, "the limit of q, k and v", "'clip_qkv'; 0: none");
    field(&P::sinks, "whether scores have sinks", "a learned one a head");
    field(&P::output_gate, "the gate after attention", "'attn_output_gate'");
    field(&P::gate_by_head, "the gate after attention", "whether heads have one number each");
    field(&P::gate_bias, "the gate after attention", "whether it may have a bias");
    field(&P::gate_softplus, "the gate after attention", "whether by softplus");
    field(&P::k_is_v, "whether K and V have one matrix", "'attention_k_eq_v'");
    field(&P::v_norm_eps, "the norm of V", "its epsilon; 0: none");
    field(&P::v_scale, "the factor on V", "'attention_value_scale'");
    field(&P::qk_norm, "the norm of q and k", "");
    field(&P::qk_norm_extent, "the norm of q and k", "its extent");
    field(&P::qk_norm_after_rope, "the norm of q and k", "whether it follows the rotation");
    field(&P::q_growth, "the growth of q", "");
    field(&P::output_scale, "the factor on attention's result",
          "'attention_in_multiplier', 'attention_out_multiplier'");
    field(&P::input_scale, "the factor on attention's input", "'attention_in_multiplier'");
    field(&P::attended_norm, "the norm of what is attended", "");
    field(&P::learned_mask, "whether scores have learned masks", "the family");
  }
};

// Vectors are empty where the layer has none, and matrices have no rows.
struct AttentionWeights {
  Weight q, k, v;      // [heads or kv_heads · head_dim or v_dim, hidden]
  Weight output;       // [hidden, heads · v_dim]
  Weight output_gate;  // [heads · v_dim or heads, hidden]
  std::vector<float> q_bias, k_bias, v_bias, output_bias, output_gate_bias;
  std::vector<float> q_norm, k_norm;  // [head_dim], or [heads or kv_heads · head_dim]
  std::vector<float> q_norm_bias, k_norm_bias;
  std::vector<float> attended_norm;            // [heads · v_dim]
  Weight mask_in;                              // [kv_heads, kv_heads · v_dim]
  std::vector<float> mask_in_bias, mask_rate;  // [kv_heads]
};

// What ALiBi (arXiv:2108.12409) adds to a score for each token of distance, less its sign: the
// powers of one number that end at 2^-max_bias; where the heads are no power of two, every other
// one of twice as many fills them up. [heads]
std::vector<float> alibi_slopes(uint32_t heads, float max_bias);

}  // namespace tenon
