#include "core/exec/state_parameters.h"

#include <algorithm>
#include <initializer_list>

namespace tenon {
namespace {

TensorView view_of(const float* values, std::initializer_list<uint64_t> extents) {
  TensorView view;
  view.data = values;
  view.dtype = DType::f32;
  view.rank = static_cast<uint8_t>(extents.size());
  std::ranges::copy(extents, view.shape);
  uint64_t stride = 1;
  for (size_t i = extents.size(); i-- > 0;) {
    view.stride[i] = stride;
    stride *= view.shape[i];
  }
  return view;
}

}  // namespace

StateParameters::StateParameters(const Model& model) {
  size_t widest = 0;
  for (const LayerPlan& layer : model.plan.layers) {
    if (layer.recurrent) widest = std::max<size_t>(widest, layer.recurrent.channels());
  }
  zeros_.assign(widest, 0.0f);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const RecurrentPlan& recurrent = model.plan.layers[i].recurrent;
    std::vector<TensorView>& views = layers_.emplace_back();
    if (recurrent) add_layer(recurrent, model.layers[i], views);
    views_.push_back(views);
  }
}

void StateParameters::add_layer(const RecurrentPlan& recurrent, const LayerWeights& weights,
                                std::vector<TensorView>& views) {
  const uint64_t channels = recurrent.channels(), heads = recurrent.heads;
  const std::vector<float>& bias = weights.ssm_conv_bias;
  views = {view_of(weights.ssm_conv.data(), {channels, recurrent.width}),
           view_of(bias.empty() ? zeros_.data() : bias.data(), {channels}),
           recurrent.kind == Recurrence::mamba
               ? view_of(weights.ssm_a.data(), {heads, recurrent.state})
               : view_of(weights.ssm_a.data(), {heads}),
           view_of(weights.ssm_dt_bias.data(), {recurrent.steps()})};
  if (recurrent.kind == Recurrence::gated_delta) {
    limits_.push_back({recurrent.strongest_decay, 0.0f});
    views.push_back(view_of(limits_.back().data(), {1}));
    return;
  }
  views.push_back(view_of(weights.ssm_d.data(), {heads}));
  if (recurrent.kind != Recurrence::mamba2) return;
  limits_.push_back({recurrent.least_step, recurrent.most_step});
  views.push_back(view_of(limits_.back().data(), {2}));
}

}  // namespace tenon
