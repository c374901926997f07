// What stands before the layers of a head that drafts (core/model/heads/head.h).
#include <algorithm>
#include <cstring>

#include "core/exec/cuda/step/step.h"

namespace tenon::cuda {

uint32_t StepSetup::entering() const {
  return head == nullptr ? 0 : std::max(head->features, model->plan.hidden);
}
bool StepSetup::keeps_embedded() const {
  return head != nullptr || model->plan.reads_embedded();
}
uint32_t StepSetup::joined() const {
  if (!keeps_embedded()) return 0;
  return std::max(head == nullptr ? 0 : head->features, 2 * model->plan.hidden);
}
uint32_t StepSetup::logits_width() const {
  const bool renamed = head != nullptr && !head->token_ids.empty();
  return renamed ? static_cast<uint32_t>(head->token_ids.size()) : model->plan.vocabulary;
}

Status CudaStep::load_head() {
  if (!setup_.keeps_embedded()) return {};
  const uint64_t rows = setup_.max_rows;
  const uint64_t element = weights_.type() == Input::f32 ? sizeof(float) : sizeof(uint16_t);
  if (setup_.head != nullptr) {
    TENON_ASSIGN_OR_RETURN(entering_, input<float>(rows * setup_.entering(), "a head's states"));
  }
  TENON_ASSIGN_OR_RETURN(embedded_,
                         memory_.array<float>(rows * setup_.model->plan.hidden, "activations"));
  const auto stride = static_cast<uint64_t>(DeviceWeights::input_stride(setup_.joined()));
  TENON_ASSIGN_OR_RETURN(joined_, memory_.bytes(rows * stride * element, "activations"));
  return {};
}

Status CudaStep::send_inputs(const BatchView& batch) {
  const TensorView& inputs = batch.inputs;
  entering_width_ = static_cast<uint32_t>(inputs.shape[1]);
  const auto* from = static_cast<const float*>(inputs.data);
  if (inputs.stride[0] == entering_width_) {
    return turn().send(entering_, std::span(from, uint64_t{batch.rows} * entering_width_));
  }
  gathered_.resize(uint64_t{batch.rows} * entering_width_);
  for (uint64_t row = 0; row < batch.rows; ++row) {
    std::memcpy(&gathered_[row * entering_width_], from + row * inputs.stride[0],
                entering_width_ * sizeof(float));
  }
  return send(entering_, gathered_);
}

// embedded, states → hidden
void CudaStep::enter_head() {
  return setup_.head->joins_halves() ? enter_mtp() : enter_eagle3();
}

// The target's states are normed as the head says and become one; its own are taken as they are.
void CudaStep::enter_eagle3() {
  const Head& head = *setup_.head;
  const uint32_t width = setup_.model->plan.hidden;
  const int features = static_cast<int>(head.features);
  if (entering_width_ != head.features) {
    keep(launch_take_rows(driver_.stream(), entering_, nullptr, hidden_, Input::f32, rows_,
                          static_cast<int>(width), static_cast<int>(width)),
         "a head's own states");
  } else {
    const int stride = DeviceWeights::input_stride(head.features);
    if (head.feature_norm == FeatureNorm::none) {
      keep(launch_take_rows(driver_.stream(), entering_, nullptr, joined_, weights_.type(), rows_,
                            features, stride),
           "a head's states");
    } else {
      const bool each = head.feature_norm == FeatureNorm::each;
      NormShape shape;
      shape.heads = each ? static_cast<uint32_t>(head.state_layers.size()) : 1;
      shape.rows = rows_ * shape.heads;
      shape.width = features / static_cast<int>(shape.heads);
      shape.x_stride = features;
      shape.out_stride = stride;
      shape.weight_rows = shape.heads;
      shape.eps = head.norm.eps;
      keep(launch_norm(driver_.stream(), entering_, weights_.entrance.features_norm, nullptr,
                       joined_, weights_.type(), shape),
           "the norm of a head's states");
    }
    multiply(weights_.entrance.fc, nullptr, joined_, rows_, hidden_);
  }
  if (head.norm_before_residual != 1) return;
  norm(head.norm, weights_.entrance.state_norm, nullptr, hidden_, rows_, hidden_, Input::f32);
}

// Both halves are normed, if the head has norms, and become one.
void CudaStep::enter_mtp() {
  const Head& head = *setup_.head;
  if (head.kind == HeadKind::eagle) {
    take_half(embedded_, false);
    take_half(entering_, true);
  } else {
    norm_half(head.norm, weights_.entrance.token_norm, embedded_, head.state_first);
    norm_half(head.norm, weights_.entrance.state_norm, entering_, !head.state_first);
  }
  multiply(weights_.entrance.fc, weights_.entrance.fc_bias, joined_, rows_, hidden_);
}

// embedded, hidden → joined
void CudaStep::join_head() {
  const Head& head = *setup_.head;
  norm_half(plan(0).attention_norm, weights_.layers[0].attention_norm, embedded_, false);
  if (head.norm_before_residual != 1) {
    return norm_half(head.norm, weights_.entrance.state_norm, hidden_, true);
  }
  take_half(hidden_, true);
}

// x [rows, hidden] → a half of each row that the next product reads, as it is.
void CudaStep::take_half(const float* x, bool second) {
  const uint32_t width = setup_.model->plan.hidden;
  keep(launch_take_rows(driver_.stream(), x, nullptr, half_of_joined(second), weights_.type(),
                        rows_, static_cast<int>(width), DeviceWeights::input_stride(2 * width)),
       "a head's states");
}

void* CudaStep::half_of_joined(bool second) const {
  const uint64_t element = weights_.type() == Input::f32 ? sizeof(float) : sizeof(uint16_t);
  const uint64_t before = second ? setup_.model->plan.hidden * element : 0;
  return static_cast<std::byte*>(joined_) + before;
}

// x [rows, hidden] → a half of each row that the next product reads.
void CudaStep::norm_half(const NormPlan& norm, const float* weight, const float* x, bool second) {
  const uint32_t width = setup_.model->plan.hidden;
  NormShape shape;
  shape.rows = rows_;
  shape.width = static_cast<int>(width);
  shape.out_stride = DeviceWeights::input_stride(2 * width);
  shape.eps = norm.eps;
  shape.centered = norm.kind == NormKind::layer;
  keep(launch_norm(driver_.stream(), x, weight, nullptr, half_of_joined(second), weights_.type(),
                   shape),
       "the norm of what a head reads");
}

}  // namespace tenon::cuda
