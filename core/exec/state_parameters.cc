#include "core/exec/state_parameters.h"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

TensorView view_of(const float* values, std::span<const uint64_t> extents) {
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
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const RecurrentPlan& recurrent = model.plan.layers[i].recurrent;
    std::vector<TensorView>& views = layers_.emplace_back();
    if (recurrent) add_layer(recurrent, model.layers[i], views);
    views_.push_back(views);
  }
}

void StateParameters::add_layer(const RecurrentPlan& recurrent, const LayerWeights& weights,
                                std::vector<TensorView>& views) {
  for (RecurrentParameter& one : recurrence_kind(recurrent.kind).parameters(recurrent, weights)) {
    const float* values = one.values.data();
    if (one.values.empty()) {
      uint64_t count = 1;
      for (const uint64_t extent : one.extents) count *= extent;
      one.own.resize(count);
      values = own_.emplace_back(std::move(one.own)).data();
    }
    views.push_back(view_of(values, one.extents));
  }
}

}  // namespace tenon
