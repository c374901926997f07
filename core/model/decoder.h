// The decoder, written once: the order of operations of a transformer whose layers are data
// (core/model/plan/model_plan.h), in terms of fused-grain operations that an executor implements.
//
// Activations are f32. Every operation is entered by all workers of the executor with equal
// arguments; the executor splits the work and places the barriers, so an operation may read what
// the one before it wrote. What an operation does beside its name follows from the layer's plan:
// biases, the kind of norm, the activation, which part of a head turns.
//
//   hidden     [rows, hidden]            the residual stream
//   normed     [rows, hidden]            what a layer without a norm reads is hidden itself
//   q, k, v    [rows, heads | kv_heads, head_dim]
//   attended   [rows, heads · head_dim]
//   expanded   [rows, heads · …]         latent attention: heads as the weights have them, q before
//                                        it is absorbed and what `attended` becomes
//   inner      [rows, MLP width], or of each chosen expert
//   inputs     [rows, layers, width]     per-layer embeddings
//   streams    [rows, count, hidden]     of a model with several, of which hidden is a copy of one
//   low        [rows, hidden]            the learned residual
//   embedded   [rows, hidden]            what entered the first layer, for shared blocks
//   joined     [rows, 2, hidden]         the stream and that, by the block's norm
//
// A layer's mixer is attention, a recurrence, or both; a layer may have no MLP.
#pragma once

#include <cstdint>

#include "core/model/plan/model_plan.h"

namespace tenon {

class DecoderOps {
 public:
  // tokens → hidden; scaled, positions added. Where hidden enters: what follows from positions
  virtual void embed() = 0;
  virtual void layer_inputs() = 0;           // tokens and hidden → inputs of all layers
  virtual void open_streams() = 0;           // hidden → streams
  virtual void predict(uint32_t layer) = 0;  // streams → streams, and the active one → hidden
  virtual void attention_norm(uint32_t layer) = 0;  // hidden → normed
  // normed → q, k, v and the gate, biases added; of latent attention → expanded, k, with their
  // norms
  virtual void qkv(uint32_t layer) = 0;
  // Norm of q and k, before or after they turn, and of V where that has one.
  virtual void qk_norm(uint32_t layer) = 0;
  virtual void clip(uint32_t layer) = 0;    // holds q, k and v within ±clip
  virtual void grow_q(uint32_t layer) = 0;  // q or expanded, times a factor of the position
  virtual void rotate(uint32_t layer) = 0;  // rotary embedding of q and k
  virtual void absorb(uint32_t layer) = 0;  // latent attention: expanded → q
  // normed, and what q is made of → keys of an index, stored, and the entries that rows attend to;
  // nothing is chosen where the layer takes the choice of one before it
  virtual void choose(uint32_t layer) = 0;
  // v → numbers added to scores, which are a further element of k, and of q a constant
  virtual void mask_keys(uint32_t layer) = 0;
  virtual void attend(uint32_t layer) = 0;  // stores k, v; q → attended, times σ of its gate
  virtual void expand(uint32_t layer) = 0;  // latent attention: attended → expanded
  // hidden → low: its norm, and the learned residual of that
  virtual void low_residual(uint32_t layer) = 0;
  // hidden times the layer's weights of its mixer's half, or of its MLP's
  virtual void weigh_stream(uint32_t layer, bool of_mlp) = 0;
  // hidden → (hidden + low) / sqrt(2)
  virtual void add_low_residual(uint32_t layer) = 0;
  // hidden += scale · post_norm(attended · Woᵀ), of latent attention that of expanded
  virtual void attention_output(uint32_t layer) = 0;
  virtual void recur_in(uint32_t layer) = 0;   // normed → what enters a recurrence, and its gate
  virtual void recur(uint32_t layer) = 0;      // reads and writes states; ends with the gate
  virtual void recur_out(uint32_t layer) = 0;  // hidden += scale · post_norm(… · Woutᵀ)
  // hidden → normed, by the norm that attention has where the MLP has none of its own
  virtual void mlp_norm(uint32_t layer) = 0;
  // normed → inner: act(gate) · up, or act(up); of the experts that a router chooses, where the
  // layer has them in place of an MLP
  virtual void mlp_in(uint32_t layer) = 0;
  // normed → what experts make of it, kept aside
  virtual void experts_aside(uint32_t layer) = 0;
  virtual void add_aside(uint32_t layer) = 0;  // hidden += what was kept aside
  // Experts next to an MLP: keeps the norm of inner · Wdownᵀ, then hidden → inner of the experts
  virtual void experts_beside(uint32_t layer) = 0;
  // hidden += scale · post_norm(inner · Wdownᵀ), or of the experts' results added up; next to an
  // MLP of their norm and what was kept
  virtual void mlp_out(uint32_t layer) = 0;
  // hidden and streams → streams; hidden is then the active one, scaled
  virtual void correct(uint32_t layer) = 0;
  // hidden, or the streams but the first, += post_norm(act(hidden · Wgateᵀ) · inputs · Woutᵀ)
  virtual void layer_input(uint32_t layer) = 0;
  virtual void scale_layer(uint32_t layer) = 0;  // hidden times the layer's number
  // A shared block: hidden is kept and, next to embedded, normed → joined
  virtual void enter_block(uint32_t layer) = 0;
  virtual void clear_stream() = 0;               // hidden = 0
  virtual void leave_block(uint32_t layer) = 0;  // hidden → what was kept + link · hidden
  virtual void leave_kept(uint32_t layer) = 0;   // hidden is what was kept
  virtual void layer_done(uint32_t layer) = 0;   // hidden is what the layer makes
  virtual void close_streams() = 0;              // streams → hidden
  virtual void logits() = 0;                     // wanted rows: final norm, head, scale and cap

 protected:
  ~DecoderOps() = default;
};

inline void run_mixer_out(const LayerPlan& layer, uint32_t index, DecoderOps& ops) {
  if (layer.low_residual) ops.low_residual(index);
  if (layer.weighs_stream) ops.weigh_stream(index, false);
  if (layer.attends()) ops.attention_output(index);
  if (layer.recurrent) ops.recur_out(index);
  if (layer.low_residual) ops.add_low_residual(index);
}

// normed → q, k and v as attention takes them.
inline void run_qkv(const LayerPlan& layer, uint32_t index, DecoderOps& ops) {
  ops.qkv(index);
  const bool norm_last = layer.attention.qk_norm_after_rope;
  if (layer.attention.qk_norm && !norm_last) ops.qk_norm(index);
  if (layer.attention.clip > 0.0f) ops.clip(index);
  if (layer.attention.q_growth) ops.grow_q(index);
  if (layer.attention.rope >= 0) ops.rotate(index);
  if (layer.attention.qk_norm && norm_last) ops.qk_norm(index);
}

// Attention and the MLP are a shared block, whose result the recurrence alone reads.
inline void run_shared_block(const LayerPlan& layer, uint32_t index, DecoderOps& ops) {
  ops.enter_block(index);
  ops.clear_stream();  // to which attention's result is added, and then the MLP's
  run_qkv(layer, index, ops);
  ops.attend(index);
  ops.attention_output(index);
  ops.mlp_norm(index);
  ops.mlp_in(index);
  ops.clear_stream();
  ops.mlp_out(index);
  ops.leave_block(index);
  ops.attention_norm(index);
  ops.recur_in(index);
  ops.recur(index);
  ops.leave_kept(index);
  ops.recur_out(index);
  ops.layer_done(index);
}

// In parallel both halves of a layer read what it began with, so the MLP's inner part comes before
// the mixer adds to the stream.
inline void run_layer(const LayerPlan& layer, uint32_t index, DecoderOps& ops) {
  if (layer.shared) return run_shared_block(layer, index, ops);
  if (layer.streams) ops.predict(index);
  if (layer.attention_norm) ops.attention_norm(index);
  if (layer.recurrent) ops.recur_in(index);
  if (layer.attends()) {
    run_qkv(layer, index, ops);
    if (layer.latent) ops.absorb(index);
    if (layer.index.heads > 0) ops.choose(index);
    if (layer.attention.learned_mask) ops.mask_keys(index);
    ops.attend(index);
    if (layer.latent) ops.expand(index);
  }
  if (layer.recurrent) ops.recur(index);
  if (!layer.parallel) run_mixer_out(layer, index, ops);
  if (layer.has_mlp()) {
    if (layer.mlp_input_norm()) ops.mlp_norm(index);
    if (layer.experts.aside) ops.experts_aside(index);
    ops.mlp_in(index);
    if (layer.experts.beside_norm) ops.experts_beside(index);
  }
  if (layer.parallel) run_mixer_out(layer, index, ops);
  if (layer.has_mlp() && layer.weighs_stream) ops.weigh_stream(index, true);
  if (layer.has_mlp()) ops.mlp_out(index);
  if (layer.joins_aside) ops.add_aside(index);
  if (layer.streams) ops.correct(index);
  if (layer.input) ops.layer_input(index);
  if (layer.scaled) ops.scale_layer(index);
  ops.layer_done(index);
}

// Layers [first, last) of a plan, to its end where `last` is beyond it.
struct LayerRange {
  uint32_t first = 0;
  uint32_t last = UINT32_MAX;

  bool has_first() const { return first == 0; }
  bool has_last(const ModelPlan& plan) const { return last >= plan.layers.size(); }
  bool contains(size_t layer) const { return layer >= first && layer < last; }
};

// One forward pass, or the part of it that these layers are: `hidden` enters where the first is not
// among them, and is left there where the last is not. Called by every worker.
inline void run_decoder(const ModelPlan& plan, DecoderOps& ops, LayerRange range = {}) {
  ops.embed();
  if (range.has_first() && plan.input()) ops.layer_inputs();
  if (range.has_first() && plan.streams()) ops.open_streams();
  for (uint32_t layer = range.first; layer < plan.layers.size() && layer < range.last; ++layer) {
    run_layer(plan.layers[layer], layer, ops);
  }
  if (!range.has_last(plan)) return;
  if (plan.streams()) ops.close_streams();
  ops.logits();
}

// Rows that no layer changes, of which each keeps K and V: what `embed` makes is normed as it is.
// `store` is called with the number of a layer whose k and v are there.
template <typename Store>
void run_context(const ModelPlan& plan, DecoderOps& ops, Store&& store) {
  ops.embed();
  for (uint32_t layer = 0; layer < plan.layers.size(); ++layer) {
    run_qkv(plan.layers[layer], layer, ops);
    store(layer);
  }
}

}  // namespace tenon
