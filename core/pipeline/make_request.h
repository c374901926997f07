// A prompt's text as tokens, and what somebody asks of an answer, completed by what the pipeline
// and the model recommend, as a request for the engine.
#pragma once

#include <tenon/types.h>

#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/config/answer_settings.h"
#include "core/engine/requests/request.h"

namespace tenon {

struct Pipeline;

// A text as the model's tokens. Errors: invalid_argument, if the model has no tokenizer; those of
// Tokenizer::encode. [any thread]
Result<std::vector<TokenId>> encode_text(const Pipeline& pipeline, std::string_view text,
                                         bool add_special = true);

// Order of precedence: `asked`, pipeline file, generation_config.json, built-in default. Without
// max_tokens, as many as fit. Errors: invalid_argument, for texts that no token of the model is;
// then `at_fault` is the parameter that has them.
Result<Request> make_request(const Pipeline& pipeline, const AnswerSettings& asked,
                             std::vector<TokenId> prompt, std::string_view* at_fault = nullptr);

}  // namespace tenon
