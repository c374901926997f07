// One layer of a model as a model of its own, and one window of text through it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/exec/ref/executor.h"
#include "core/model/model.h"

namespace tenon::quantize {

// `layer` of `model`, whose views it borrows. The first layer keeps the embedding before it;
// what enters others are hidden states.
Model single_layer(const Model& model, uint32_t layer);

class WindowRunner {
 public:
  // `single` outlives the object.
  WindowRunner(const Model& single, uint32_t window_tokens, ref::Multiply multiply);
  ~WindowRunner();

  Status load();
  // `tokens` [window] enter, or where `states` is not empty these [window, hidden] instead. Hidden
  // states after the layer → out [window, hidden].
  Status run(std::span<const TokenId> tokens, std::span<const float> states, std::span<float> out);

 private:
  const Model& single_;
  const uint32_t window_;
  const std::unique_ptr<ModelShapeStorage> shape_;
  std::vector<KvGroupGeometry> groups_;
  std::unique_ptr<Executor> executor_;
  uint64_t step_id_ = 0;
};

}  // namespace tenon::quantize
