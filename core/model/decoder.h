// The decoder, written once: the order of operations of a pre-norm transformer with rotary
// attention and a gated MLP, in terms of fused-grain operations that an executor implements.
//
// Activations are f32. Every operation is entered by all workers of the executor with equal
// arguments; the executor splits the work and places the barriers, so an operation may read what
// the one before it wrote.
//
//   hidden     [rows, hidden]            the residual stream
//   normed     [rows, hidden]
//   q, k, v    [rows, heads | kv_heads, head_dim]
//   attended   [rows, heads · head_dim]
#pragma once

#include <cstdint>

#include "core/model/model_config.h"

namespace tenon {

class DecoderOps {
 public:
  virtual void embed() = 0;                           // tokens → hidden
  virtual void attention_norm(uint32_t layer) = 0;    // hidden → normed
  virtual void qkv(uint32_t layer) = 0;               // normed → q, k, v, biases added
  virtual void qk_norm(uint32_t layer) = 0;           // RMS norm over each head of q and k
  virtual void rotate(uint32_t layer) = 0;            // rotary embedding of q and k, in halves
  virtual void attend(uint32_t layer) = 0;            // stores k, v; q → attended
  virtual void attention_output(uint32_t layer) = 0;  // hidden += attended · Woᵀ
  virtual void mlp_norm(uint32_t layer) = 0;          // hidden → normed
  virtual void gated_mlp(uint32_t layer) = 0;         // hidden += down(silu(gate) · up)
  virtual void logits() = 0;                          // wanted rows: final norm, head

 protected:
  ~DecoderOps() = default;
};

// One forward pass, called by every worker.
inline void run_decoder(const ModelConfig& config, DecoderOps& ops) {
  ops.embed();
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    ops.attention_norm(layer);
    ops.qkv(layer);
    if (config.qk_norm) ops.qk_norm(layer);
    ops.rotate(layer);
    ops.attend(layer);
    ops.attention_output(layer);
    ops.mlp_norm(layer);
    ops.gated_mlp(layer);
  }
  ops.logits();
}

}  // namespace tenon
