// From logits to tokens: rows for the sampler, samples that fork, and what it answered.
#pragma once

#include <string>
#include <vector>

#include "core/engine/answers/beam_groups.h"
#include "core/engine/answers/denoising.h"
#include "core/engine/answers/parallel_sampler.h"
#include "core/engine/answers/prompt_scores.h"
#include "core/engine/step/admission.h"
#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class Sampling {
 public:
  Sampling(EngineContext& context, Admission& admission, BeamGroups& beam_groups)
      : context_(context),
        admission_(admission),
        beam_groups_(beam_groups),
        sampler_(context),
        prompt_scores_(context, sampler_) {}

  // Draws a token for each sampled share, or judges its drafts: fills the step's rows and results
  // and appends to what sequences know.
  void sample(Step& step);

 private:
  void fork_samples(Step& step);
  void choose(Step& step);
  uint32_t tops_of(const RequestState& request) const;
  void build_rows(Step& step);
  void add_rows(Step& step, Share& share, TokenLogprob*& top);
  void draw(Step& step);
  void verify(Step& step);
  // Of shares that the executor drew from.
  void take_drawn(Step& step);
  bool was_drawn(const Step& step, const Share& share) const;
  uint32_t walk_drawn(Step& step, Share& share, std::span<uint32_t> path);
  void no_token(Sequence& sequence, const SampleRow& row);
  void denoise(Step& step, Share& share);
  void take_tokens(Step& step, Share& share, uint32_t count);
  void sampler_failed(const std::vector<Share*>& shares, const Status& status);

  EngineContext& context_;
  Admission& admission_;
  BeamGroups& beam_groups_;
  ParallelSampler sampler_;
  PromptScores prompt_scores_;
  Denoising denoising_;
  std::vector<Share*> drawing_, verifying_, drawn_;
  std::vector<TokenLogprob> top_;
  std::vector<VerifyRows> verify_rows_;
  std::vector<VerifyResult> verify_results_;
  std::vector<uint32_t> paths_;  // [drafts] of all that are verified
};

}  // namespace tenon
