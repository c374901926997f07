// A text that is made by diffusion: all of its tokens are known from the first, as masks, and none
// is ever computed for good. Each step turns some of the masks into tokens (canvas.h).
#pragma once

#include "core/engine/answers/diffusion/canvas.h"
#include "core/engine/answers/token_answer.h"

namespace tenon {

class DiffusionAnswer final : public TokenAnswer {
 public:
  // Appends the masks to what the sequence knows.
  DiffusionAnswer(EngineContext& context, Sequence& sequence);

  uint32_t generated() const override { return canvas_.delivered(); }
  uint32_t served() const override;
  RowUse use_of(uint32_t position) const override;
  uint32_t tops() const override;
  SampleRow row_of(const Step& step, const Share& share, uint32_t i) const override;
  void take(Step& step, Share& share, uint32_t count) override;
  void deliver(Step& step, const Share& share) override;

 private:
  Canvas canvas_;
};

}  // namespace tenon
