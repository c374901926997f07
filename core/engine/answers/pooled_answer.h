// A vector instead of a text: what a prompt's last hidden states, after the final norm, become.
#pragma once

#include <vector>

#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class PooledAnswer final : public AnswerKind {
 public:
  PooledAnswer(EngineContext& context, Sequence& sequence);

  bool ends_in_flight() const override;
  RowUse use_of(uint32_t position) const override;
  void gather(const Step& step, const Share& share) override;
  // Once the whole prompt is computed, the sequence ends with its vector.
  void deliver(Step& step, const Share& share) override;

 private:
  uint32_t rows_ = 0;         // that were added up
  std::vector<double> sums_;  // [hidden]
};

}  // namespace tenon
