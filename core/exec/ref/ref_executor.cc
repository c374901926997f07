#include "core/exec/ref/ref_executor.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/exec/batch_check.h"
#include "core/exec/hidden_rows.h"
#include "core/exec/host_kv.h"
#include "core/exec/ref/ref_attention.h"
#include "core/exec/ref/ref_math.h"
#include "core/exec/rotary.h"
#include "core/model/decoder.h"
#include "core/model/weight_rows.h"

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
  std::string_view name() const override { return "ref"; }
  std::span<const Fact> provides() const override { return kProvides; }
  std::span<const Fact> requirements() const override { return {}; }
  bool uses_kernels() const override { return false; }
  uint32_t workers() const override { return 1; }

  Status load(const ExecutorSetup& setup) override;
  Result<std::unique_ptr<Executor>> sibling() const override { return make_ref_executor(); }
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
  void rotate(uint32_t layer) override;
  void attend(uint32_t layer) override;
  void attention_output(uint32_t layer) override;
  void mlp_norm(uint32_t layer) override;
  void gated_mlp(uint32_t layer) override;
  void logits() override;

  const ModelConfig& config() const { return model_->config; }
  bool shares_kv(uint32_t layer) const { return shape_->layers[layer].shares_kv_with >= 0; }
  void norm_rows(std::span<const float> scale);
  void add_to_hidden(const std::vector<float>& update);
  void keep_hidden(uint32_t layer, const std::vector<float>& rows);

  const Model* model_ = nullptr;
  const ModelShape* shape_ = nullptr;
  BatchLimits limits_;
  std::vector<KvGroupGeometry> groups_;
  HostKv kv_;
  std::vector<float> frequencies_;  // [head_dim / 2]

  const BatchView* batch_ = nullptr;
  std::vector<float> hidden_, normed_;  // [rows, hidden]
  std::vector<float> q_, attended_;     // [rows, heads, head_dim]
  std::vector<float> k_, v_;            // [rows, kv_heads, head_dim]
  std::vector<float> gate_, up_;        // [rows, intermediate]
  std::vector<float> update_;           // [rows, hidden]
  std::vector<float> logits_;           // [logits_rows, vocabulary]
  HiddenRows kept_;
  StepOutput output_;
};

Status check_weights(const Model& model) {
  TENON_RETURN_IF_ERROR(readable_by_rows(model.embedding));
  TENON_RETURN_IF_ERROR(readable_by_rows(model.head));
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) {
      if (weight->n_out != 0) TENON_RETURN_IF_ERROR(readable_by_rows(*weight));
    }
  }
  return {};
}

Status RefExecutor::load(const ExecutorSetup& setup) {
  if (setup.model == nullptr || setup.shape == nullptr) {
    return internal("the executor 'ref' was loaded without a model");
  }
  TENON_RETURN_IF_ERROR(check_weights(*setup.model));
  TENON_RETURN_IF_ERROR(check_decoder_shape(*setup.shape));
  TENON_RETURN_IF_ERROR(kv_.allocate(*setup.shape, setup.geometry));
  model_ = setup.model;
  shape_ = setup.shape;
  groups_.assign(setup.geometry.groups, setup.geometry.groups + setup.geometry.group_count);
  limits_ = {shape_, groups_.data(), setup.max_rows, setup.max_sequences};
  frequencies_ = rope_frequencies(config());
  if (setup.progress) setup.progress(weight_bytes(), weight_bytes());
  return {};
}

Status RefExecutor::launch(const BatchView& batch) {
  if (model_ == nullptr) return internal("a step was launched before the executor was loaded");
  TENON_RETURN_IF_ERROR(check_batch(batch, limits_));
  const size_t rows = batch.rows;
  const size_t heads = size_t{config().heads} * config().head_dim;
  const size_t kv_heads = size_t{config().kv_heads} * config().head_dim;
  for (auto* values : {&hidden_, &normed_, &update_}) values->resize(rows * config().hidden);
  for (auto* values : {&q_, &attended_}) values->resize(rows * heads);
  for (auto* values : {&k_, &v_}) values->resize(rows * kv_heads);
  for (auto* values : {&gate_, &up_}) values->resize(rows * config().intermediate);
  logits_.resize(batch.logits_rows.size() * size_t{config().vocabulary});
  batch_ = &batch;
  kept_.begin(batch, config().hidden);
  run_decoder(config(), *this);
  output_ = {batch.step_id,       logits_.data(), static_cast<uint32_t>(batch.logits_rows.size()),
             config().vocabulary, kept_.arrays(), static_cast<uint32_t>(batch.hidden_rows.size())};
  return {};
}

Result<StepOutput> RefExecutor::collect(uint64_t step_id) {
  if (batch_ == nullptr || output_.step_id != step_id) {
    return internal("step " + std::to_string(step_id) + " was not the last one launched");
  }
  return output_;
}

void RefExecutor::embed() {
  const TensorView& inputs = batch_->inputs;
  for (uint32_t row = 0; row < batch_->rows; ++row) {
    if (batch_->tokens[row] == kNoToken) {
      std::copy_n(static_cast<const float*>(inputs.data) + row * inputs.stride[0], config().hidden,
                  &hidden_[size_t{row} * config().hidden]);
      continue;
    }
    read_row(model_->embedding, static_cast<uint32_t>(batch_->tokens[row]),
             &hidden_[size_t{row} * config().hidden]);
  }
}

void RefExecutor::norm_rows(std::span<const float> scale) {
  for (size_t at = 0; at < hidden_.size(); at += config().hidden) {
    ref::rms_norm(&hidden_[at], scale, config().norm_eps, &normed_[at]);
  }
}

void RefExecutor::attention_norm(uint32_t layer) {
  norm_rows(model_->layers[layer].attention_norm);
}
void RefExecutor::mlp_norm(uint32_t layer) {
  norm_rows(model_->layers[layer].mlp_norm);
}

void RefExecutor::qkv(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  ref::multiply(w.q, w.q_bias, normed_.data(), batch_->rows, q_.data());
  if (shares_kv(layer)) return;
  ref::multiply(w.k, w.k_bias, normed_.data(), batch_->rows, k_.data());
  ref::multiply(w.v, w.v_bias, normed_.data(), batch_->rows, v_.data());
}

void RefExecutor::qk_norm(uint32_t layer) {
  const auto norm_heads = [this](std::vector<float>& heads, std::span<const float> scale) {
    for (size_t at = 0; at < heads.size(); at += config().head_dim) {
      ref::rms_norm(&heads[at], scale, config().norm_eps, &heads[at]);
    }
  };
  norm_heads(q_, model_->layers[layer].q_norm);
  if (!shares_kv(layer)) norm_heads(k_, model_->layers[layer].k_norm);
}

void RefExecutor::rotate(uint32_t layer) {
  std::vector<float> cosine(frequencies_.size());
  std::vector<float> sine(frequencies_.size());
  const size_t dim = config().head_dim;
  for (size_t row = 0; row < batch_->rows; ++row) {
    rotary_angles(batch_->positions[row], frequencies_, cosine.data(), sine.data());
    for (size_t h = 0; h < config().heads; ++h) {
      ref::rotate_halves(cosine, sine, &q_[(row * config().heads + h) * dim]);
    }
    for (size_t h = 0; h < config().kv_heads && !shares_kv(layer); ++h) {
      ref::rotate_halves(cosine, sine, &k_[(row * config().kv_heads + h) * dim]);
    }
  }
}

void RefExecutor::attend(uint32_t layer) {
  const ref::Attention attention{*shape_, kv_.storage(), *batch_};
  if (!shares_kv(layer)) attention.store(layer, k_.data(), v_.data());
  attention.attend(layer, q_.data(), attended_.data());
}

void RefExecutor::add_to_hidden(const std::vector<float>& update) {
  for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] += update[i];
}

void RefExecutor::attention_output(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  ref::multiply(w.output, w.output_bias, attended_.data(), batch_->rows, update_.data());
  add_to_hidden(update_);
}

void RefExecutor::gated_mlp(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  ref::multiply(w.gate, w.gate_bias, normed_.data(), batch_->rows, gate_.data());
  ref::multiply(w.up, w.up_bias, normed_.data(), batch_->rows, up_.data());
  for (size_t i = 0; i < gate_.size(); ++i) gate_[i] = ref::silu(gate_[i]) * up_[i];
  ref::multiply(w.down, w.down_bias, gate_.data(), batch_->rows, update_.data());
  add_to_hidden(update_);
  keep_hidden(layer, hidden_);
}

void RefExecutor::keep_hidden(uint32_t layer, const std::vector<float>& rows) {
  float* to = kept_.of_layer(layer);
  for (size_t i = 0; i < batch_->hidden_rows.size() && to != nullptr; ++i) {
    const auto first =
        rows.begin() + static_cast<ptrdiff_t>(batch_->hidden_rows[i] * size_t{config().hidden});
    to = std::copy_n(first, config().hidden, to);
  }
}

void RefExecutor::logits() {
  if (kept_.of_layer(config().layers) != nullptr) {
    norm_rows(model_->final_norm);
    keep_hidden(config().layers, normed_);
  }
  const size_t width = config().hidden;
  for (size_t i = 0; i < batch_->logits_rows.size(); ++i) {
    ref::rms_norm(&hidden_[batch_->logits_rows[i] * width], model_->final_norm, config().norm_eps,
                  &normed_[i * width]);
  }
  ref::multiply(model_->head, {}, normed_.data(), static_cast<uint32_t>(batch_->logits_rows.size()),
                logits_.data());
}

}  // namespace

std::unique_ptr<Executor> make_ref_executor() {
  return std::make_unique<RefExecutor>();
}

}  // namespace tenon
