// The numbers of a model's recurrences as state kernels take them: in the order that
// docs/futures.md gives under "State kinds".
#pragma once

#include <tenon/types.h>

#include <deque>
#include <span>
#include <vector>

#include "core/model/model.h"

namespace tenon {

class StateParameters {
 public:
  StateParameters() = default;
  // Points into the model, which outlives this.
  explicit StateParameters(const Model& model);
  StateParameters(StateParameters&&) = default;
  StateParameters& operator=(StateParameters&&) = default;
  StateParameters(const StateParameters&) = delete;
  StateParameters& operator=(const StateParameters&) = delete;

  // [layers], empty where nothing recurs.
  std::span<const std::span<const TensorView>> views() const { return views_; }

 private:
  void add_layer(const RecurrentPlan& recurrent, const LayerWeights& weights,
                 std::vector<TensorView>& views);

  std::deque<std::vector<TensorView>> layers_;
  std::vector<std::span<const TensorView>> views_;
  std::deque<std::vector<float>> own_;  // what is no weight
};

}  // namespace tenon
