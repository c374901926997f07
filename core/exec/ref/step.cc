#include "core/exec/ref/step.h"

#include "core/exec/ref/blocks/attention.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {
namespace {

Status check_adapters(std::span<const Adapter* const> adapters) {
  for (const Adapter* adapter : adapters) {
    for (const AdapterMatrix& matrix : adapter->matrices) {
      TENON_RETURN_IF_ERROR(readable_by_rows(matrix.a));
      TENON_RETURN_IF_ERROR(readable_by_rows(matrix.b));
    }
  }
  return {};
}

Status check_weights(const Model& model, const Head* head) {
  if (head != nullptr) TENON_RETURN_IF_ERROR(readable_by_rows(head->fc));
  TENON_RETURN_IF_ERROR(readable_by_rows(model.embedding));
  TENON_RETURN_IF_ERROR(readable_by_rows(model.head));
  if (model.plan.learned_positions) TENON_RETURN_IF_ERROR(readable_by_rows(model.positions));
  for (const Weight* weight : {&model.layer_table, &model.layer_projection}) {
    if (weight->n_out > 0) TENON_RETURN_IF_ERROR(readable_by_rows(*weight));
  }
  for (const auto* streams : {&model.stream_in, &model.stream_out}) {
    for (const Weight& weight : *streams) TENON_RETURN_IF_ERROR(readable_by_rows(weight));
  }
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) {
      TENON_RETURN_IF_ERROR(readable_by_rows(*weight));
    }
  }
  return {};
}

}  // namespace

Status RefStep::load(const ExecutorSetup& setup) {
  if (setup.model == nullptr || setup.shape == nullptr) {
    return internal("the executor 'ref' was loaded without a model");
  }
  TENON_RETURN_IF_ERROR(check_weights(*setup.model, head_));
  TENON_RETURN_IF_ERROR(check_adapters(setup.adapters));
  TENON_RETURN_IF_ERROR(check_decoder_shape(*setup.shape));
  TENON_RETURN_IF_ERROR(kv_.allocate(*setup.shape, setup.geometry));
  model_ = setup.model;
  shape_ = setup.shape;
  groups_.assign(setup.geometry.groups, setup.geometry.groups + setup.geometry.group_count);
  adapters_.assign(setup.adapters.begin(), setup.adapters.end());
  limits_ = {shape_, groups_.data(), setup.max_rows, setup.max_sequences,
             static_cast<uint32_t>(adapters_.size())};
  limits_.needs_tokens = static_cast<bool>(plan().input());
  if (head_ != nullptr) {
    limits_.features = head_->features;
    limits_.enters_alone = head_->kind == HeadKind::dflash;
  }
  TENON_RETURN_IF_ERROR(indexed_.load(plan(), *shape_));
  scores_.load(*shape_, setup.scored);
  frequencies_.clear();
  for (const RopePlan& rope : plan().ropes) {
    frequencies_.push_back(rope_frequencies(rope, shape_->context_tokens));
  }
  if (setup.progress) setup.progress(model_->weight_bytes(), model_->weight_bytes());
  return {};
}

void RefStep::add_places(uint32_t count) {
  adapters_.resize(adapters_.size() + count, nullptr);
  limits_.adapters = static_cast<uint32_t>(adapters_.size());
}

Status RefStep::put_adapter(uint32_t place, const Adapter& adapter) {
  const Adapter* const one[] = {&adapter};
  TENON_RETURN_IF_ERROR(check_adapters(one));
  adapters_[place] = &adapter;
  return {};
}

Status RefStep::run(const BatchView& batch) {
  if (model_ == nullptr) return internal("a step was launched before the executor was loaded");
  TENON_RETURN_IF_ERROR(check_batch(batch, limits_));
  const size_t rows = batch.rows;
  for (auto* values : {&hidden_, &normed_, &update_}) values->resize(rows * plan().hidden);
  logits_.resize(batch.logits_rows.size() * size_t{model_->head.n_out});
  batch_ = &batch;
  kept_.begin(batch, plan().hidden);
  scores_.begin(batch);
  chosen_.assign(rows, {});
  if (indexed_.most > 0) to_choose_.begin(batch, indexed_.attended, indexed_.most);
  if (head_ != nullptr && head_->is_context(batch.inputs.data != nullptr)) {
    run_context(plan(), *this, [&](uint32_t layer) {
      ref::Attention{*shape_, kv_.storage(), batch}.store(layer, k_.data(), v_.data());
    });
  } else {
    run_decoder(plan(), *this);
  }
  output_ = {batch.step_id,      logits_.data(), static_cast<uint32_t>(batch.logits_rows.size()),
             model_->head.n_out, kept_.arrays(), static_cast<uint32_t>(batch.hidden_rows.size())};
  output_.scores = &scores_;
  return {};
}

}  // namespace tenon
