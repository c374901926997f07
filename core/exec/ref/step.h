// One step of the oracle: the decoder's operations, and what they read and write.
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "core/exec/batch_check.h"
#include "core/exec/entry_scores.h"
#include "core/exec/executor.h"
#include "core/exec/hidden_rows.h"
#include "core/exec/host_kv.h"
#include "core/exec/index_rows.h"
#include "core/exec/ref/math.h"
#include "core/model/decoder.h"
#include "core/model/heads/head.h"
#include "core/model/model.h"

namespace tenon {
namespace ref {
struct Recurrence;
}

class RefStep final : private DecoderOps {
 public:
  explicit RefStep(ref::Multiply multiply) : multiply_(std::move(multiply)) {}

  // Before `load`: the model is that of a head, which outlives this.
  void take_head(const Head& head) { head_ = &head; }
  // Points into the setup's model and shape, which outlive this.
  Status load(const ExecutorSetup& setup);
  // As AdapterHost has them.
  void add_places(uint32_t count);
  Status put_adapter(uint32_t place, const Adapter& adapter);
  void drop_adapter(uint32_t place) { adapters_[place] = nullptr; }
  // Computes all of a batch, which lives until the next one. Errors: those of `check_batch`.
  Status run(const BatchView& batch);
  // The last batch's results; null: there was none.
  const StepOutput* output() const { return batch_ != nullptr ? &output_ : nullptr; }
  const Model* model() const { return model_; }
  const ref::Multiply& products() const { return multiply_; }
  HostKv& kv() { return kv_; }
  const HostKv& kv() const { return kv_; }

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
  void layer_done(uint32_t layer) override {
    kv_.layer_done(layer);
    keep_hidden(layer, hidden_);
  }
  void close_streams() override;
  void logits() override;

  const ModelPlan& plan() const { return model_->plan; }
  const LayerPlan& plan(uint32_t layer) const { return model_->plan.layers[layer]; }
  // The weights of the layer's attention and MLP, which may be another layer's.
  const LayerWeights& block(uint32_t layer) const {
    const SharedBlockPlan& shared = plan(layer).shared;
    return model_->layers[shared.borrows() ? static_cast<size_t>(shared.from_layer) : layer];
  }
  bool shares_kv(uint32_t layer) const { return shape_->layers[layer].shares_kv_with >= 0; }
  const std::vector<float>& input(const NormPlan& norm) const { return norm ? normed_ : hidden_; }
  void multiply(const Weight& weight, std::span<const float> bias, const float* x, float* y) const;
  void enter_head();
  void enter_mtp();
  void enter_context();
  void join_head();
  void fill_states(std::vector<float>& states) const;
  // Whether the layer reads embeddings next to the stream: of a head, or of a shared block.
  bool joins(uint32_t layer) const { return head_ != nullptr && head_->joins(layer); }
  bool reads_joined(uint32_t layer) const { return joins(layer) || plan(layer).shared; }
  void add_low(const Weight& low, const Weight& high, const float* x, std::vector<float>& y) const;
  void norm_rows(const NormPlan& norm, std::span<const float> scale, std::span<const float> bias);
  void norm_heads(const SelfAttentionPlan& attention, std::span<const float> scale,
                  std::span<const float> bias, std::vector<float>& heads);
  void add_to_hidden(float factor, const NormPlan& post_norm, std::span<const float> scale,
                     std::span<const float> bias);
  void keep_normed(float factor);
  void latent_qkv(uint32_t layer);
  std::vector<float> modalities(uint32_t layer);  // [rows, streams], of what hidden is
  void make_index(uint32_t layer);                // index_q_, index_k_ turned, index_weights_
  // Of a recurrence: [rows, its width].
  void multiply(const RecurrentProduct& product, const LayerWeights& w, const float* x,
                std::vector<float>& y);
  void mamba(const ref::Recurrence& recurrence);
  void keep_hidden(uint32_t layer, const std::vector<float>& rows);

  const ref::Multiply multiply_;
  const Model* model_ = nullptr;
  const Head* head_ = nullptr;  // null: the model is none
  const ModelShape* shape_ = nullptr;
  BatchLimits limits_;
  std::vector<KvGroupGeometry> groups_;
  HostKv kv_;
  std::vector<std::vector<float>> frequencies_;  // [ropes][dim / 2]

  std::vector<const Adapter*> adapters_;  // by their places; null: the place is empty

  const BatchView* batch_ = nullptr;
  std::vector<float> hidden_, normed_;  // [rows, hidden]
  std::vector<float> embedded_;  // [rows, hidden]: what tokens are, of a head or for shared blocks
  std::vector<float> joined_;    // [rows, 2, hidden]: and that next to the stream
  std::vector<float> before_;    // [rows, hidden]: what a layer with a shared block began with
  std::vector<float> q_, attended_;    // [rows, heads, head_dim or v_dim]
  std::vector<float> attention_gate_;  // as q_, where there is one
  std::vector<float> k_, v_;           // [rows, kv_heads, head_dim]
  std::vector<float> expanded_;        // [rows, heads, …] as latent attention's weights have them
  std::vector<float> low_;             // [rows, q_rank], normed
  std::vector<float> index_q_;         // [rows, index heads, dim]
  std::vector<float> index_k_, index_weights_;  // [rows, dim], [rows, index heads]
  using Chosen = std::vector<uint32_t>;
  std::vector<Chosen> chosen_;  // [rows] entries; empty: all that the row sees
  IndexedLayers indexed_;
  RowsToChoose to_choose_;
  std::vector<float> inner_, up_;    // [rows, MLP width]; experts: inner is their sum
  std::vector<float> update_;        // [rows, hidden]
  std::vector<float> beside_;        // [rows, hidden]: an MLP's result next to experts, or theirs
  std::vector<float> inputs_;        // [rows, layers, width]: per-layer embeddings
  std::vector<float> streams_;       // [rows, count, hidden], of a model with several
  std::vector<float> low_residual_;  // [rows, hidden]
  std::array<std::vector<float>, kMostRecurrentInputs> recurrent_;  // of the state kernel
  std::vector<float> gate_, scanned_;                               // [rows, inner]
  std::vector<float> logits_;                                       // [logits_rows, vocabulary]
  HiddenRows kept_;
  EntryScores scores_;
  StepOutput output_;
};

// Of a row; `out` may be `x`. Nothing without a norm.
void apply_norm(const NormPlan& norm, const float* x, std::span<const float> scale,
                std::span<const float> bias, float* out);

}  // namespace tenon
