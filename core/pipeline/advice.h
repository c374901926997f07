// What the model's own files recommend, as far as this pipeline can follow it.
#pragma once

#include <string>

#include "core/config/answer_settings.h"
#include "core/config/pipeline_config.h"
#include "core/model/checkpoint/generation_defaults.h"
#include "core/pipeline/pipeline.h"

namespace tenon {

// Takes back what the pipeline's sampler does not honour, and what diffusion has none of.
GenerationDefaults followed_advice(const Pipeline& pipeline);
// One warning that names the keys which nothing here follows, where there are any.
void warn_of_unused(const GenerationDefaults& advice);

// Completes what was asked, and what the pipeline's file says, by the advice: whoever asks for
// something decides over what excludes it.
AnswerSettings advised_answer(const Pipeline& pipeline, const AnswerSettings& asked);

// The configuration with what the model recommends in the place of what nobody set, and the origin
// of each, for people; and what has no key there, a line each.
PipelineConfig advised_config(const Pipeline& pipeline);
std::string other_advice_text(const GenerationDefaults& advice);

}  // namespace tenon
