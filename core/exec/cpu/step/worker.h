// One worker's part of the decoder.
//
// Rows, heads and columns are shared out between workers; barriers stand where one reads what
// another wrote. A step of one row, the common case of generating text, saves barriers: each
// worker normalises, prepares and rotates the row for itself.
//
// Barriers of a layer, with P phases of attention: 4 + P for one row (behind the products of q, k
// and v, of the output, of gate and up, of down), 9 + P for more (also behind each preparation and
// the rotation). Norms behind products and other activations than gated SiLU have one more each.
// A layer with experts has 3 more for one row and 6 for more: behind the scores, the choice (two)
// and the sum, with one more preparation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/exec/cpu/products/products.h"
#include "core/model/decoder.h"

namespace tenon {

class CpuWorker final : public CpuProducts, private DecoderOps {
 public:
  CpuWorker(const CpuStep& step, uint32_t worker) : CpuProducts(step, worker) {}

  // The worker's own buffers. Errors: out_of_memory.
  Status allocate();
  // Makes room for places of adapters that were added since, and for what was put there.
  Status grow_for_adapters();
  // Runs the step's batch; entered by all `workers` at once, of which this one is the first or a
  // later one. `linear_calls`: how many products the executor has made since loading.
  void run(uint32_t workers, uint32_t linear_calls);
  // Whether kernels kept to its buffers.
  bool intact() const {
    return own_prepared_.intact() && own_low_prepared_.intact() && own_q_.intact() &&
           own_k_.intact() && own_v_.intact();
  }

 private:
  void embed() override;
  void layer_inputs() override;
  void open_streams() override;
  void predict(uint32_t layer) override;
  void attention_norm(uint32_t layer) override;
  void qkv(uint32_t layer) override;
  void qk_norm(uint32_t layer) override;
  void clip(uint32_t layer) override;
  void grow_q(uint32_t layer) override;
  void rotate(uint32_t layer) override;
  void absorb(uint32_t layer) override;
  void choose(uint32_t layer) override;
  void mask_keys(uint32_t layer) override;
  void attend(uint32_t layer) override;
  void expand(uint32_t layer) override;
  void low_residual(uint32_t layer) override;
  void weigh_stream(uint32_t layer, bool of_mlp) override;
  void add_low_residual(uint32_t layer) override;
  void attention_output(uint32_t layer) override;
  void recur_in(uint32_t layer) override;
  void recur(uint32_t layer) override;
  void recur_out(uint32_t layer) override;
  void mlp_norm(uint32_t layer) override;
  void mlp_in(uint32_t layer) override;
  void experts_beside(uint32_t layer) override;
  void experts_aside(uint32_t layer) override;
  void add_aside(uint32_t layer) override;
  void mlp_out(uint32_t layer) override;
  void correct(uint32_t layer) override;
  void layer_input(uint32_t layer) override;
  void scale_layer(uint32_t layer) override;
  void enter_block(uint32_t layer) override;
  void clear_stream() override;
  void leave_block(uint32_t layer) override;
  void leave_kept(uint32_t layer) override;
  void layer_done(uint32_t layer) override;
  void close_streams() override;
  void logits() override;

  const ModelPlan& plan() const { return step_.model->plan; }
  const LayerPlan& plan(uint32_t layer) const { return step_.model->plan.layers[layer]; }
  // After it no row reads another.
  bool is_last_mixer(uint32_t layer) const { return layer + 1 >= step_.layers_with_mixers; }
  const LayerWeights& vectors(uint32_t layer) const { return step_.model->layers[layer]; }
  bool shares_kv(uint32_t layer) const { return step_.shape->layers[layer].shares_kv_with >= 0; }

  float* q() const { return (alone() ? own_q_ : step_.buffers.q).floats(); }
  float* k() const { return (alone() ? own_k_ : step_.buffers.k).floats(); }
  float* v() const {
    const bool own = alone() && own_v_.bytes() > 0;
    return (own ? own_v_ : step_.buffers.v).floats();
  }
  float* low() const { return (alone() ? own_low_ : step_.buffers.low).floats(); }
  float* expanded() const { return (alone() ? own_expanded_ : step_.buffers.expanded).floats(); }
  const float* normed() const { return (alone() ? own_normed_ : step_.buffers.normed).floats(); }
  // What follows a norm, or the stream itself where there is none.
  const float* input(const NormPlan& norm) const {
    return norm ? normed() : step_.buffers.hidden.floats();
  }

  // head.cc
  void enter_head();
  void enter_mtp();
  void enter_states(float* hidden);
  void enter_context();
  void store_context(uint32_t layer);
  void join_head();
  // Whether the layer reads embeddings next to the stream.
  bool joins(uint32_t layer) const { return step_.head != nullptr && step_.head->joins(layer); }

  // shared_block.cc
  bool reads_joined(uint32_t layer) const { return joins(layer) || plan(layer).shared; }
  // The layer whose weights its attention and MLP have.
  uint32_t block_of(uint32_t layer) const {
    const SharedBlockPlan& shared = plan(layer).shared;
    return shared.borrows() ? static_cast<uint32_t>(shared.from_layer) : layer;
  }
  void keep_embedded();
  void add_low_qkv(uint32_t layer, const float* x);
  void add_low_mlp(uint32_t layer, const float* x, float* gate, float* up);

  // stream.cc
  void embed_tokens();
  void finish_embeddings();
  void norm(const NormPlan& norm, std::span<const float> scale, std::span<const float> bias);
  void keep_normed(float factor);
  void norm_row(const NormPlan& norm, const float* x, const float* scale, const float* bias,
                uint32_t width, float* out) const;
  void norm_rows(const NormPlan& norm, std::span<const float> scale, float* rows) const;
  // The same for rows of any width. Nothing without a norm, else ends with a barrier.
  void norm_wide_rows(const NormPlan& norm, std::span<const float> scale, uint32_t width,
                      float* rows);
  // Adds a product to the stream, by the norm after it and a factor; x [rows_, k_in].
  void add_to_stream(float factor, const float* x, const PackedMatrix& matrix,
                     std::span<const float> bias, const NormPlan& post_norm,
                     std::span<const float> scale, std::span<const float> norm_bias);
  void add_parts(float factor, const float* x, const PackedMatrix& matrix,
                 std::span<const float> bias, const NormPlan& post_norm,
                 std::span<const float> scale, std::span<const float> norm_bias);
  // The end of that: the product is in CpuBuffers::product.
  void add_update(float factor, const NormPlan& post_norm, std::span<const float> scale,
                  std::span<const float> norm_bias);
  // After the last mixer.
  void keep_wanted_rows(uint32_t layer);
  void gather(std::span<const uint32_t> wanted, float* values, uint64_t width) const;
  void hand_out(float* to, const float* from, std::span<const uint32_t> rows) const;
  void norm_last();
  void hand_out_final_rows();

  // attention.cc
  template <typename Function>
  void for_each_head(uint32_t layer, Function&& function);
  void norm_all_heads(uint32_t layer);
  float* masked_k(uint32_t layer) const {
    const SelfAttentionPlan& attention = plan(layer).attention;
    return step_.buffers.expanded.floats() + uint64_t{rows_} * attention.heads * attention.k_dim();
  }
  void gate_attended(const LayerPlan& layer);
  const float* attended_by_all(uint32_t layer, const float* own);
  void scale_v(const SelfAttentionPlan& attention);
  void make_v(const SelfAttentionPlan& attention, uint64_t row, uint64_t head, const float* k);

  // latent.cc
  void latent_qkv(uint32_t layer);
  void latent_norms(uint32_t layer);
  void rotate_latent(uint32_t layer);

  // index.cc
  void store_index_keys(uint32_t layer);
  void score_entries(uint32_t layer, const SeeingRow& row, Share part, float* scores);
  void fill_table(size_t n, const float* scores);
  void store_k_of_chosen(uint32_t layer);

  // recurrence.cc
  void multiply_apart(uint32_t layer, const RecurrentProduct& product, const float* x, float* y);
  void scale_inputs(const RecurrentPlan& recurrent);
  void norm_low(uint32_t layer);
  void convolve_and_scan(uint32_t layer);
  void run_states(uint32_t layer, std::span<const void* const> inputs, const HostMemory& out);
  void gate_output(uint32_t layer);
  float* recurred(uint32_t layer) const;  // what the output's product reads: [rows_, inner]

  // mlp.cc: kernels finish gates by SiLU and by GELU's approximation; others are made of two
  // products.
  static std::optional<Epilogue> gate_epilogue(Activation activation);
  bool is_plain(uint32_t layer) const;
  float* inner_of(uint32_t layer) const;
  void cut_gates(const MlpPlan& mlp);
  void finish_gate(Activation activation, float limit, float* gate, const float* up,
                   uint32_t count) const;

  // streams.cc
  float* streams_of(uint64_t row) const;  // [count, hidden]
  void route_streams(uint32_t layer);
  void predict_row(const LayerWeights& w, const StreamsPlan& streams, float* modalities,
                   float* own);

  // experts.cc
  void route(uint32_t layer, const float* x);
  void count_used_bytes(uint32_t layer);
  void experts_in(uint32_t layer);
  void add_gated(Part part, const PackedMatrix& up, const float* up_bias, const Epilogue* fused);
  void add_chosen(uint32_t layer, const Epilogue* fused);
  void factor_inner(const ExpertsPlan& experts, uint64_t count);
  void activate_inner(const ExpertsPlan& experts, uint64_t first, uint64_t count);
  void experts_out(uint32_t layer);
  void multiply_chosen(uint32_t layer);
  void combine_experts(uint32_t layer);
  void add_beside(uint32_t layer);
  void combine_results(const ExpertsPlan& experts, uint32_t chosen, uint64_t width,
                       bool with_shared, Share rows);

  HostMemory own_normed_;              // [hidden]
  HostMemory own_q_, own_k_;           // [heads or kv_heads, head_dim]
  HostMemory own_low_, own_expanded_;  // of latent attention
  HostMemory own_v_;                   // as own_k_, where V is more than a product
  std::vector<float> own_ones_;        // [head_dim], there as well
  std::vector<float> own_position_;    // [hidden], with learned positions
  std::vector<float> own_inputs_;      // [layers · width], of per-layer embeddings
  std::vector<float> own_choice_;      // [3 · experts], to choose with
  std::vector<float> own_streams_;     // [count, hidden], of a model with several
};

}  // namespace tenon
