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
  // Of several ranks each has some of the inner columns, of gate and up alike.
  const DeviceMatrix& up = w.gate_up.parts[1].matrix;
  const int inner_stride = DeviceWeights::input_stride(mlp.width);
  void* const inner = up.starts != nullptr ? gather_.own() : inner_;
  const int out_stride = up.starts != nullptr ? RankGather::stride(*up.starts) : inner_stride;
  const auto all_columns = [&] {
    if (up.starts != nullptr) gather(*up.starts, weights_.type(), rows_, inner_, inner_stride);
  };
  if (const DeviceMatrix& both = w.gate_up.matrix; !adds_low && gates_at_once(both)) {
    const MultiplyCall call = multiply_call(both, w.gate_up.bias, normed_, rows_, nullptr);
    multiply(both, call, {inner, out_stride, kind});
    return all_columns();
  }
  if (up.n_out == 0) return all_columns();
  // Without a gate the stack has a part that is not there.
  const int stride = multiply_all(w.gate_up, normed_, gate_up_);
  if (adds_low) add_low_mlp(layer, stride);
  keep(launch_gate(driver_.stream(), mlp.gated ? gate_up_ : nullptr,
                   mlp.gated ? gate_up_ + up.n_out : gate_up_, inner, weights_.type(), rows_,
                   up.n_out, stride, out_stride, kind),
       "the activation");
  all_columns();
}

void CudaStep::mlp_out(uint32_t layer) {
  if (plan(layer).experts) return experts_out(layer);
  const DeviceLayer& w = block_weights(layer);
  add_to_hidden(plan(layer), plan(layer).mlp_post_norm, w.mlp_post_norm, w.mlp_post_norm_bias,
                w.down, w.down_bias, inner_);
}

}  // namespace tenon::cuda
