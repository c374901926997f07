// Drafts, judged: by the sampler, or by what the executor has drawn in its place.
#pragma once

#include <vector>

#include "core/engine/answers/parallel_sampler.h"
#include "core/engine/step/step.h"

namespace tenon {

class Verifying {
 public:
  explicit Verifying(ParallelSampler& sampler) : sampler_(sampler) {}

  // Both hand to each share's answer how many results it has. Shares that have ended are left out;
  // requests fail together with the sampler.
  void verify(Step& step, std::vector<Share*>& shares);
  // Of shares that the executor drew from, with drafts or without.
  void take_drawn(Step& step, const std::vector<Share*>& shares);

 private:
  uint32_t walk_drawn(Step& step, Share& share, std::span<uint32_t> path);

  ParallelSampler& sampler_;
  std::vector<VerifyRows> rows_;
  std::vector<VerifyResult> results_;
  // [drafts] of all that are judged either way; shares point there until the step is done.
  std::vector<uint32_t> paths_, drawn_paths_;
};

}  // namespace tenon
