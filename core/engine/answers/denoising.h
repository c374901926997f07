// One step of an answer that is made by diffusion: which of its masks become tokens, and which.
#pragma once

#include <tenon/sampler.h>

#include <vector>

#include "core/engine/step/step.h"

namespace tenon {

class Denoising {
 public:
  // A row for each mask that the step looks at. Results get room for at least one alternative, so
  // that samplers say how likely their token is.
  static uint32_t tops_of(const Request& request);
  static void add_rows(Step& step, Share& share, TokenLogprob*& top);
  // What was drawn takes the place of as many masks as the step is to end; the others stay.
  void take(Step& step, Share& share);

 private:
  std::vector<double> confidence_;  // [rows of a share]
};

}  // namespace tenon
