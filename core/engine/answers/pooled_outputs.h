// Embeddings: what a prompt's last hidden states, behind the final norm, become where a request
// asks for them instead of an answer.
#pragma once

#include <vector>

#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class PooledOutputs {
 public:
  explicit PooledOutputs(EngineContext& context) : context_(context) {}

  // Adds the step's rows up, in the order of their positions, so that chunks change no bit.
  void gather(const Step& step);
  // Hands the embedding over and ends the sequence, once its whole prompt is computed.
  void deliver(Sequence& sequence);

 private:
  EngineContext& context_;
  std::vector<float> values_;  // [hidden]
};

}  // namespace tenon
