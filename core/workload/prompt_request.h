// Prompts as requests for a pipeline's engine.
#pragma once

#include <tenon/types.h>

#include <vector>

#include "core/base/result.h"
#include "core/engine/requests/request.h"
#include "core/grammar/grammar_cache.h"
#include "core/workload/prompts.h"

namespace tenon {

struct Pipeline;

// A prompt's tokens. Errors: invalid_argument, for a text where the model has no tokenizer.
Result<std::vector<TokenId>> encode_prompt(const Pipeline& pipeline, const Prompt& prompt);

// The request for one prompt, without sink and arrival. `otherwise` says what the prompt leaves
// open, and the pipeline and the model what both do. Its grammar comes from `grammars`, which
// compiles each once; a prompt without one gives a request without one. Errors: invalid_argument,
// for what the model, its tokenizer or the grammar cannot do.
Result<Request> request_of(const Pipeline& pipeline, const Prompt& prompt,
                           const AnswerSettings& otherwise, grammar::GrammarCache& grammars);

}  // namespace tenon
