#include "core/exec/ref/executor.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/batch_check.h"
#include "core/exec/hidden_rows.h"
#include "core/exec/host_kv.h"
#include "core/exec/ref/attention.h"
#include "core/exec/ref/experts.h"
#include "core/exec/ref/math.h"
#include "core/exec/ref/recurrence.h"
#include "core/exec/rotary.h"
#include "core/model/decoder.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {
namespace {

constexpr Fact kProvides[] = {
    {.key = "device.space", .words = "host"},
    {.key = "kv.dtype", .words = "f32 f16 bf16 i8 i4"},
    {.key = "attn.head_dim", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.group", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.mask.sliding", .words = "no yes"},
    {.key = "attn.mask.tree", .words = "no yes"},
    {.key = "attn.mask.spans", .words = "no yes"},
    {.key = "attn.latent", .words = "no yes"},
    {.key = "attn.soft_cap", .words = "no yes"},
    {.key = "attn.sinks", .words = "no yes"},
    {.key = "attn.alibi", .words = "no yes"},
    {.key = "kv.swap", .words = "no yes"},
    {.key = "numerics.rows", .words = "invariant"},
};

class RefExecutor final : public Executor, private DecoderOps {
 public:
  explicit RefExecutor(ref::Multiply multiply) : multiply_(std::move(multiply)) {}

  std::string_view name() const override { return "ref"; }
  std::span<const Fact> provides() const override { return kProvides; }
  std::span<const Fact> requirements() const override { return {}; }
  bool uses_kernels() const override { return false; }
  uint32_t workers() const override { return 1; }
  bool takes_adapters() const override { return true; }
  bool scores_entries() const override { return true; }

  Status load(const ExecutorSetup& setup) override;
  Result<std::unique_ptr<Executor>> sibling() const override {
    return make_ref_executor(multiply_);
  }
  Status apply(std::span<const KvMove> moves) override { return kv_.apply(moves); }
  Status launch(const BatchView& batch) override;
  Result<StepOutput> collect(uint64_t step_id) override;

  std::string numerics() const override { return "ref"; }
  uint64_t weight_bytes() const override { return model_ ? model_->weight_bytes() : 0; }
  uint64_t kv_bytes() const override { return kv_.bytes(); }

 private:
  void embed() override;
  void attention_norm(uint32_t layer) override;
  void qkv(uint32_t layer) override;
  void qk_norm(uint32_t layer) override;
  void clip(uint32_t layer) override;
  void rotate(uint32_t layer) override;
  void absorb(uint32_t layer) override;
  void attend(uint32_t layer) override;
  void expand(uint32_t layer) override;
  void attention_output(uint32_t layer) override;
  void recur_in(uint32_t layer) override;
  void recur(uint32_t layer) override;
  void recur_out(uint32_t layer) override;
  void mlp_norm(uint32_t layer) override;
  void mlp_in(uint32_t layer) override;
  void mlp_out(uint32_t layer) override;
  void layer_done(uint32_t layer) override { keep_hidden(layer, hidden_); }
  void logits() override;

  const ModelPlan& plan() const { return model_->plan; }
  const LayerPlan& plan(uint32_t layer) const { return model_->plan.layers[layer]; }
  bool shares_kv(uint32_t layer) const { return shape_->layers[layer].shares_kv_with >= 0; }
  const std::vector<float>& input(const NormPlan& norm) const { return norm ? normed_ : hidden_; }
  void multiply(const Weight& weight, std::span<const float> bias, const float* x, float* y) const;
  void norm_rows(const NormPlan& norm, std::span<const float> scale, std::span<const float> bias);
  void norm_heads(const SelfAttentionPlan& attention, std::span<const float> scale,
                  std::span<const float> bias, std::vector<float>& heads);
  void add_to_hidden(const LayerPlan& layer, const NormPlan& post_norm,
                     std::span<const float> scale, std::span<const float> bias);
  void latent_qkv(uint32_t layer);
  void keep_hidden(uint32_t layer, const std::vector<float>& rows);

  const ref::Multiply multiply_;
  const Model* model_ = nullptr;
  const ModelShape* shape_ = nullptr;
  BatchLimits limits_;
  std::vector<KvGroupGeometry> groups_;
  HostKv kv_;
  std::vector<std::vector<float>> frequencies_;  // [ropes][dim / 2]

  std::vector<const Adapter*> adapters_;

  const BatchView* batch_ = nullptr;
  std::vector<float> hidden_, normed_;  // [rows, hidden]
  std::vector<float> q_, attended_;     // [rows, heads, head_dim]
  std::vector<float> k_, v_;            // [rows, kv_heads, head_dim]
  std::vector<float> expanded_;        // [rows, heads, …] as latent attention's weights have them
  std::vector<float> inner_, up_;      // [rows, MLP width]; experts: inner is their sum
  std::vector<float> update_;          // [rows, hidden]
  std::vector<float> x_, step_;        // [rows, channels], [rows, heads or channels]
  std::vector<float> gate_, scanned_;  // [rows, inner]
  std::vector<float> logits_;          // [logits_rows, vocabulary]
  HiddenRows kept_;
  EntryScores scores_;
  StepOutput output_;
};

Status check_adapters(std::span<const Adapter* const> adapters) {
  for (const Adapter* adapter : adapters) {
    for (const AdapterMatrix& matrix : adapter->matrices) {
      TENON_RETURN_IF_ERROR(readable_by_rows(matrix.a));
      TENON_RETURN_IF_ERROR(readable_by_rows(matrix.b));
    }
  }
  return {};
}

Status check_weights(const Model& model) {
  TENON_RETURN_IF_ERROR(readable_by_rows(model.embedding));
  TENON_RETURN_IF_ERROR(readable_by_rows(model.head));
  if (model.plan.learned_positions) TENON_RETURN_IF_ERROR(readable_by_rows(model.positions));
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) {
      TENON_RETURN_IF_ERROR(readable_by_rows(*weight));
    }
  }
  return {};
}

Status RefExecutor::load(const ExecutorSetup& setup) {
  if (setup.model == nullptr || setup.shape == nullptr) {
    return internal("the executor 'ref' was loaded without a model");
  }
  TENON_RETURN_IF_ERROR(check_weights(*setup.model));
  TENON_RETURN_IF_ERROR(check_adapters(setup.adapters));
  TENON_RETURN_IF_ERROR(check_decoder_shape(*setup.shape));
  TENON_RETURN_IF_ERROR(kv_.allocate(*setup.shape, setup.geometry));
  model_ = setup.model;
  shape_ = setup.shape;
  groups_.assign(setup.geometry.groups, setup.geometry.groups + setup.geometry.group_count);
  adapters_.assign(setup.adapters.begin(), setup.adapters.end());
  limits_ = {shape_, groups_.data(), setup.max_rows, setup.max_sequences,
             static_cast<uint32_t>(adapters_.size())};
  scores_.load(*shape_, setup.scored);
  frequencies_.clear();
  for (const RopePlan& rope : plan().ropes) {
    frequencies_.push_back(rope_frequencies(rope, shape_->context_tokens));
  }
  if (setup.progress) setup.progress(weight_bytes(), weight_bytes());
  return {};
}

Status RefExecutor::launch(const BatchView& batch) {
  if (model_ == nullptr) return internal("a step was launched before the executor was loaded");
  TENON_RETURN_IF_ERROR(check_batch(batch, limits_));
  const size_t rows = batch.rows;
  for (auto* values : {&hidden_, &normed_, &update_}) values->resize(rows * plan().hidden);
  logits_.resize(batch.logits_rows.size() * size_t{plan().vocabulary});
  batch_ = &batch;
  kept_.begin(batch, plan().hidden);
  scores_.begin(batch);
  run_decoder(plan(), *this);
  output_ = {batch.step_id,     logits_.data(), static_cast<uint32_t>(batch.logits_rows.size()),
             plan().vocabulary, kept_.arrays(), static_cast<uint32_t>(batch.hidden_rows.size())};
  output_.scores = &scores_;
  return {};
}

Result<StepOutput> RefExecutor::collect(uint64_t step_id) {
  if (batch_ == nullptr || output_.step_id != step_id) {
    return internal("step " + std::to_string(step_id) + " was not the last one launched");
  }
  return output_;
}

void apply_norm(const NormPlan& norm, const float* x, std::span<const float> scale,
                std::span<const float> bias, float* out) {
  if (norm.kind == NormKind::rms) ref::rms_norm(x, scale, norm.eps, out);
  if (norm.kind == NormKind::layer) ref::layer_norm(x, scale, bias, norm.eps, out);
}

void RefExecutor::embed() {
  const TensorView& inputs = batch_->inputs;
  const size_t width = plan().hidden;
  std::vector<float> position(width);
  for (size_t row = 0; row < batch_->rows; ++row) {
    float* to = &hidden_[row * width];
    if (batch_->tokens[row] == kNoToken) {
      std::copy_n(static_cast<const float*>(inputs.data) + row * inputs.stride[0], width, to);
    } else {
      read_row(model_->embedding, static_cast<uint32_t>(batch_->tokens[row]), to);
      for (size_t i = 0; i < width; ++i) to[i] *= plan().embedding_scale;
    }
    if (!plan().learned_positions) continue;
    read_row(model_->positions, batch_->positions[row], position.data());
    for (size_t i = 0; i < width; ++i) to[i] += position[i];
  }
  for (size_t at = 0; at < hidden_.size(); at += width) {
    apply_norm(plan().embedding_norm, &hidden_[at], model_->embedding_norm,
               model_->embedding_norm_bias, &hidden_[at]);
  }
}

void RefExecutor::norm_rows(const NormPlan& norm, std::span<const float> scale,
                            std::span<const float> bias) {
  for (size_t at = 0; at < hidden_.size(); at += plan().hidden) {
    apply_norm(norm, &hidden_[at], scale, bias, &normed_[at]);
  }
}

void RefExecutor::attention_norm(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  norm_rows(plan(layer).attention_norm, w.attention_norm, w.attention_norm_bias);
}
void RefExecutor::mlp_norm(uint32_t layer) {
  if (!plan(layer).mlp_norm) return attention_norm(layer);
  const LayerWeights& w = model_->layers[layer];
  norm_rows(plan(layer).mlp_norm, w.mlp_norm, w.mlp_norm_bias);
}

// y = W · x + bias for all rows, and y += scale · B · (A · x) for those with an adapter that
// changes W (arXiv:2106.09685, section 4.1).
void RefExecutor::multiply(const Weight& weight, std::span<const float> bias, const float* x,
                           float* y) const {
  multiply_(weight, bias, x, batch_->rows, y);
  for (const BatchSequence& sequence : batch_->sequences) {
    if (sequence.adapter == 0) continue;
    const AdapterMatrix* low = adapters_[sequence.adapter - 1]->find(weight);
    if (low == nullptr) continue;
    std::vector<float> inner(size_t{sequence.rows} * low->a.n_out);
    std::vector<float> added(size_t{sequence.rows} * low->b.n_out);
    multiply_(low->a, {}, x + size_t{sequence.first_row} * weight.k_in, sequence.rows,
              inner.data());
    multiply_(low->b, {}, inner.data(), sequence.rows, added.data());
    float* to = y + size_t{sequence.first_row} * weight.n_out;
    for (size_t i = 0; i < added.size(); ++i) to[i] += low->scale * added[i];
  }
}

void RefExecutor::qkv(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const SelfAttentionPlan& attention = plan(layer).attention;
  const size_t rows = batch_->rows;
  if (plan(layer).latent) return latent_qkv(layer);
  for (auto* values : {&q_, &attended_}) values->resize(rows * attention.q_width());
  for (auto* values : {&k_, &v_}) values->resize(rows * attention.kv_width());
  const float* x = input(plan(layer).attention_norm).data();
  multiply(w.q, w.q_bias, x, q_.data());
  if (shares_kv(layer)) return;
  multiply(w.k, w.k_bias, x, k_.data());
  multiply(w.v, w.v_bias, x, v_.data());
}

// arXiv:2405.04434, equations 9 to 15: the row that the cache keeps, and the heads of q.
void RefExecutor::latent_qkv(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const SelfAttentionPlan& attention = plan(layer).attention;
  const LatentAttentionPlan& latent = plan(layer).latent;
  const uint32_t rows = batch_->rows;
  const float* x = input(plan(layer).attention_norm).data();
  k_.resize(size_t{rows} * latent.row_dim());
  multiply(w.kv_a, w.kv_a_bias, x, k_.data());
  for (size_t at = 0; at < k_.size(); at += latent.row_dim()) {
    apply_norm(latent.norm, &k_[at], w.kv_a_norm, {}, &k_[at]);
  }
  expanded_.resize(size_t{rows} * attention.heads * latent.q_dim());
  if (latent.q_rank == 0) return multiply(w.q, {}, x, expanded_.data());
  std::vector<float> low(size_t{rows} * latent.q_rank);
  multiply(w.q_a, w.q_a_bias, x, low.data());
  for (size_t at = 0; at < low.size(); at += latent.q_rank) {
    apply_norm(latent.norm, &low[at], w.q_a_norm, {}, &low[at]);
  }
  multiply(w.q, {}, low.data(), expanded_.data());
}

// q_nope · (Wuk · c) = (Wukᵀ · q_nope) · c, the absorption of arXiv:2405.04434, section 2.1.2.
void RefExecutor::absorb(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const LatentAttentionPlan& latent = plan(layer).latent;
  const size_t heads = plan(layer).attention.heads;
  q_.resize(batch_->rows * heads * latent.row_dim());
  for (size_t item = 0; item < batch_->rows * heads; ++item) {
    const float* from = &expanded_[item * latent.q_dim()];
    float* to = &q_[item * latent.row_dim()];
    multiply_(w.k_absorb[item % heads], {}, from, 1, to);
    std::copy_n(from + latent.nope_dim, latent.rope_dim, to + latent.kv_rank);
  }
  attended_.resize(batch_->rows * heads * latent.kv_rank);
}

// Σ p · (Wuv · c) = Wuv · Σ p · c.
void RefExecutor::expand(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const LatentAttentionPlan& latent = plan(layer).latent;
  const size_t heads = plan(layer).attention.heads;
  expanded_.resize(batch_->rows * heads * latent.v_dim);
  for (size_t item = 0; item < batch_->rows * heads; ++item) {
    multiply_(w.v_expand[item % heads], {}, &attended_[item * latent.kv_rank], 1,
              &expanded_[item * latent.v_dim]);
  }
}

// A norm's weight covers a head, or all of them; with one for each head they follow each other.
void RefExecutor::norm_heads(const SelfAttentionPlan& attention, std::span<const float> scale,
                             std::span<const float> bias, std::vector<float>& heads) {
  const bool whole = attention.qk_norm_extent == QkNormExtent::whole;
  const size_t width = whole ? scale.size() : attention.head_dim;
  for (size_t at = 0; at < heads.size(); at += width) {
    const size_t own = at % scale.size();
    apply_norm(attention.qk_norm, &heads[at], scale.subspan(own, width),
               bias.empty() ? bias : bias.subspan(own, width), &heads[at]);
  }
}

void RefExecutor::qk_norm(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  norm_heads(plan(layer).attention, w.q_norm, w.q_norm_bias, q_);
  if (!shares_kv(layer)) norm_heads(plan(layer).attention, w.k_norm, w.k_norm_bias, k_);
}

void RefExecutor::clip(uint32_t layer) {
  for (auto* values : {&q_, &k_, &v_}) ref::clip(*values, plan(layer).attention.clip);
}

void RefExecutor::rotate(uint32_t layer) {
  const SelfAttentionPlan& attention = plan(layer).attention;
  const RopePlan& rope = plan().ropes[static_cast<size_t>(attention.rope)];
  const std::vector<float>& frequencies = frequencies_[static_cast<size_t>(attention.rope)];
  std::vector<float> cosine(frequencies.size());
  std::vector<float> sine(frequencies.size());
  const auto turn = rope.pairs ? ref::rotate_pairs : ref::rotate_halves;
  const LatentAttentionPlan& latent = plan(layer).latent;
  const size_t dim = attention.head_dim;
  // Of latent attention the last elements turn.
  std::vector<float>& q = latent ? expanded_ : q_;
  const size_t q_dim = latent ? latent.q_dim() : dim;
  for (size_t row = 0; row < batch_->rows; ++row) {
    rotary_angles(batch_->positions[row], frequencies,
                  static_cast<float>(rope.scaling.attention_factor), cosine.data(), sine.data());
    for (size_t h = 0; h < attention.heads; ++h) {
      turn(cosine, sine, &q[(row * attention.heads + h) * q_dim + latent.nope_dim]);
    }
    for (size_t h = 0; h < attention.kv_heads && !shares_kv(layer); ++h) {
      turn(cosine, sine, &k_[(row * attention.kv_heads + h) * dim + latent.kv_rank]);
    }
  }
}

void RefExecutor::attend(uint32_t layer) {
  const ref::Attention attention{*shape_, kv_.storage(), *batch_};
  if (!shares_kv(layer)) attention.store(layer, k_.data(), v_.data());
  attention.attend(layer, q_.data(), attended_.data(), scores_.rows(layer));
}

// hidden += scale · post_norm(update)
void RefExecutor::add_to_hidden(const LayerPlan& layer, const NormPlan& post_norm,
                                std::span<const float> scale, std::span<const float> bias) {
  for (size_t at = 0; at < update_.size() && post_norm; at += plan().hidden) {
    apply_norm(post_norm, &update_[at], scale, bias, &update_[at]);
  }
  for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] += layer.residual_scale * update_[i];
}

void RefExecutor::attention_output(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const std::vector<float>& x = plan(layer).latent ? expanded_ : attended_;
  multiply(w.output, w.output_bias, x.data(), update_.data());
  add_to_hidden(plan(layer), plan(layer).attention_post_norm, w.attention_post_norm,
                w.attention_post_norm_bias);
}

void RefExecutor::recur_in(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const RecurrentPlan& recurrent = plan(layer).recurrent;
  const size_t rows = batch_->rows;
  const float* x = input(plan(layer).attention_norm).data();
  x_.resize(rows * recurrent.channels());
  for (auto* values : {&gate_, &scanned_}) values->resize(rows * recurrent.inner());
  step_.resize(rows * recurrent.heads);
  multiply(w.ssm_in, w.ssm_in_bias, x, x_.data());
  multiply(w.ssm_gate, w.ssm_gate_bias, x, gate_.data());
  if (recurrent.kind == Recurrence::mamba2) {
    multiply(w.ssm_step, w.ssm_step_bias, x, step_.data());
  }
}

void RefExecutor::recur(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const RecurrentPlan& own = plan(layer).recurrent;
  const ref::Recurrence recurrence{*shape_, kv_.states(), *batch_, own, w, layer};
  recurrence.convolve(x_.data(), x_.data());
  if (own.kind == Recurrence::mamba2) {
    recurrence.scan_heads(x_.data(), step_.data(), scanned_.data());
  } else {
    const size_t rows = batch_->rows;
    std::vector<float> low(rows * own.step_rank), bc(rows * 2 * own.state);
    multiply_(w.ssm_low, {}, x_.data(), batch_->rows, low.data());
    multiply_(w.ssm_bc, {}, x_.data(), batch_->rows, bc.data());
    multiply_(w.ssm_dt, {}, low.data(), batch_->rows, step_.data());
    recurrence.scan_channels(x_.data(), step_.data(), bc.data(), scanned_.data());
  }
  ref::gate(own, w.ssm_norm, gate_.data(), batch_->rows, scanned_.data());
}

void RefExecutor::recur_out(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  multiply(w.ssm_out, w.ssm_out_bias, scanned_.data(), update_.data());
  add_to_hidden(plan(layer), plan(layer).attention_post_norm, w.attention_post_norm,
                w.attention_post_norm_bias);
}

void RefExecutor::mlp_in(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const MlpPlan& mlp = plan(layer).mlp;
  const float* x = input(plan(layer).mlp_input_norm()).data();
  if (plan(layer).experts) {
    inner_.resize(size_t{batch_->rows} * plan().hidden);
    return ref::experts(plan(layer).experts, w, x, batch_->rows, inner_.data(), multiply_);
  }
  for (auto* values : {&inner_, &up_}) values->resize(size_t{batch_->rows} * mlp.width);
  multiply(w.up, w.up_bias, x, up_.data());
  if (mlp.gated) multiply(w.gate, w.gate_bias, x, inner_.data());
  for (size_t i = 0; i < inner_.size(); ++i) {
    inner_[i] = mlp.gated ? ref::activate(mlp.activation, inner_[i]) * up_[i]
                          : ref::activate(mlp.activation, up_[i]);
  }
}

void RefExecutor::mlp_out(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  if (plan(layer).experts) {
    update_ = inner_;
  } else {
    multiply(w.down, w.down_bias, inner_.data(), update_.data());
  }
  add_to_hidden(plan(layer), plan(layer).mlp_post_norm, w.mlp_post_norm, w.mlp_post_norm_bias);
}

void RefExecutor::keep_hidden(uint32_t layer, const std::vector<float>& rows) {
  float* to = kept_.of_layer(layer);
  for (size_t i = 0; i < batch_->hidden_rows.size() && to != nullptr; ++i) {
    const auto first =
        rows.begin() + static_cast<ptrdiff_t>(batch_->hidden_rows[i] * size_t{plan().hidden});
    to = std::copy_n(first, plan().hidden, to);
  }
}

void RefExecutor::logits() {
  const NormPlan& norm = plan().final_norm;
  const auto layers = static_cast<uint32_t>(plan().layers.size());
  if (kept_.of_layer(layers) != nullptr) {
    norm_rows(norm, model_->final_norm, model_->final_norm_bias);
    keep_hidden(layers, normed_);
  }
  const size_t width = plan().hidden;
  for (size_t i = 0; i < batch_->logits_rows.size(); ++i) {
    apply_norm(norm, &hidden_[batch_->logits_rows[i] * width], model_->final_norm,
               model_->final_norm_bias, &normed_[i * width]);
  }
  multiply_(model_->head, model_->head_bias, normed_.data(),
            static_cast<uint32_t>(batch_->logits_rows.size()), logits_.data());
  for (float& logit : logits_) {
    logit *= plan().logit_scale;
    if (plan().logit_soft_cap > 0.0f) logit = ref::soft_cap(logit, plan().logit_soft_cap);
  }
}

}  // namespace

std::unique_ptr<Executor> make_ref_executor(ref::Multiply multiply) {
  return std::make_unique<RefExecutor>(std::move(multiply));
}

}  // namespace tenon
