// Plain and gated MLPs.
#include "core/exec/cuda/step/step.h"

namespace tenon::cuda {

ActivationKind activation_kind(Activation activation) {
  switch (activation) {
    case Activation::silu:
      return ActivationKind::silu;
    case Activation::gelu:
      return ActivationKind::gelu;
    case Activation::gelu_tanh:
      return ActivationKind::gelu_tanh;
    case Activation::relu:
      return ActivationKind::relu;
    case Activation::relu_squared:
      return ActivationKind::relu_squared;
    case Activation::xielu:  // refused by the executor
      break;
  }
  return ActivationKind::silu;
}

void CudaStep::mlp_in(uint32_t layer) {
  if (plan(layer).experts) return experts_in(layer);
  const DeviceLayer& w = block_weights(layer);
  const bool adds_low = plan(layer).shared.mlp_rank > 0;
  const MlpPlan& mlp = plan(layer).mlp;
  input_of(static_cast<bool>(plan(layer).mlp_input_norm()));
  const ActivationKind kind = activation_kind(mlp.activation);
  const int out_stride = DeviceWeights::input_stride(mlp.width);
  if (const DeviceMatrix& both = w.gate_up.matrix; !adds_low && gates_at_once(both)) {
    const MultiplyCall call = multiply_call(both, w.gate_up.bias, normed_, rows_, nullptr);
    return multiply(both, call, {inner_, out_stride, kind});
  }
  int stride = static_cast<int>(mlp.width);
  if (mlp.gated) {
    stride = multiply_all(w.gate_up, normed_, gate_up_);
  } else {
    multiply(w.gate_up.parts[1], normed_, gate_up_);
  }
  if (adds_low) add_low_mlp(layer, stride);
  keep(launch_gate(driver_.stream(), mlp.gated ? gate_up_ : nullptr,
                   mlp.gated ? gate_up_ + mlp.width : gate_up_, inner_, weights_.type(), rows_,
                   static_cast<int>(mlp.width), stride, out_stride, kind),
       "the activation");
}

void CudaStep::mlp_out(uint32_t layer) {
  if (plan(layer).experts) return experts_out(layer);
  const DeviceLayer& w = block_weights(layer);
  add_to_hidden(plan(layer), plan(layer).mlp_post_norm, w.mlp_post_norm, w.mlp_post_norm_bias,
                w.down, w.down_bias, inner_);
}

}  // namespace tenon::cuda
