// Log probabilities of prompts, where requests ask for them: the token behind each row of a prompt
// is scored, as if it had been drawn.
#pragma once

#include <string>
#include <vector>

#include "core/engine/answers/parallel_sampler.h"
#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class PromptScores {
 public:
  PromptScores(EngineContext& context, ParallelSampler& sampler)
      : context_(context), sampler_(sampler) {}

  // Scores the step's rows of prompts and delivers them; requests fail together with the sampler.
  void score(Step& step);

 private:
  void add_rows(const Step& step, Share& share);
  std::string fault_of(std::span<const SampleRow> rows,
                       std::span<const SampleResult> results) const;
  void deliver(const Share& share, std::span<const SampleResult> results);

  EngineContext& context_;
  ParallelSampler& sampler_;
  std::vector<Share*> scored_;
  std::vector<SampleRow> rows_;  // of all of them, one after the other
  std::vector<SampleResult> results_;
  std::vector<TokenLogprob> top_;
  std::vector<GeneratedToken> tokens_;
};

}  // namespace tenon
