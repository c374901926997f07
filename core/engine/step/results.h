// From logits to what stays and what goes out: the second half of a step. What the results are is
// for each sequence's answer to say (answer_kind.h).
#pragma once

#include <vector>

#include "core/engine/answers/grammar_masks.h"
#include "core/engine/answers/parallel_sampler.h"
#include "core/engine/answers/prompt_scores.h"
#include "core/engine/step/context.h"
#include "core/engine/step/drafts/verifying.h"
#include "core/engine/step/step.h"

namespace tenon {

class Results {
 public:
  explicit Results(EngineContext& context)
      : context_(context),
        grammar_masks_(context),
        sampler_(context),
        drafts_(sampler_),
        prompt_scores_(context, sampler_) {}

  // Fills the masks of the step's rows, while the device computes their logits.
  void mask(Step& step) { grammar_masks_.fill(step); }
  // Draws a token for each sampled share, or judges its drafts: fills the step's rows and results
  // and hands them to the answers, which append to what sequences know.
  void sample(Step& step);
  // Known tokens that were computed and accepted drafts stay; slots of other drafts are given back.
  // Samples that forked find their place.
  void resolve(Step& step);
  // Ids become text and go out; samples end; scheduler and drafter hear of what came out.
  void deliver(Step& step);

 private:
  void choose(Step& step);
  void build_rows(Step& step);
  void add_rows(Step& step, Share& share, TokenLogprob*& top, bool drawn);
  void draw(Step& step);
  Status score_share(const Step& step, const Share& share);
  Status resolve_share(const Share& share);

  EngineContext& context_;
  GrammarMasks grammar_masks_;
  ParallelSampler sampler_;
  Verifying drafts_;
  PromptScores prompt_scores_;
  std::vector<Share*> drawing_, verifying_, drawn_;
  std::vector<TokenLogprob> top_;
  std::vector<uint32_t> kept_;
};

}  // namespace tenon
