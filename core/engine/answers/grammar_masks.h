// Which tokens may be drawn where a request follows a grammar: a mask for each row of a step, made
// while the device computes it.
#pragma once

#include <span>
#include <string>

#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class GrammarMasks {
 public:
  explicit GrammarMasks(EngineContext& context) : context_(context) {}

  // Of all rows of the step, behind launch and in front of collect. What is wrong with one is told
  // by `fail`.
  void fill(Step& step);
  // Ends the requests whose grammar leaves nothing to draw.
  void fail(Step& step);

 private:
  void fill_share(Step& step, Share& share);
  std::string fill_row(Sequence& sequence, std::span<uint64_t> mask, uint32_t position);

  EngineContext& context_;
};

}  // namespace tenon
