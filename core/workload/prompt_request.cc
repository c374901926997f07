#include "core/workload/prompt_request.h"

#include <utility>

#include "core/pipeline/make_request.h"
#include "core/pipeline/pipeline.h"

namespace tenon {

Result<std::vector<TokenId>> encode_prompt(const Pipeline& pipeline, const Prompt& prompt) {
  if (prompt.tokens) return *prompt.tokens;
  if (!prompt.drawn.empty()) return drawn_prompt(prompt.drawn, pipeline.model->plan.vocabulary);
  return encode_text(pipeline, prompt.text);
}

Result<Request> request_of(const Pipeline& pipeline, const Prompt& prompt,
                           const AnswerSettings& otherwise, grammar::GrammarCache& grammars) {
  TENON_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, encode_prompt(pipeline, prompt));
  TENON_ASSIGN_OR_RETURN(Request request, make_request(pipeline, overlaid(prompt.answer, otherwise),
                                                       std::move(tokens)));
  if (prompt.grammar) {
    TENON_ASSIGN_OR_RETURN(request.grammar, grammars.get(*prompt.grammar));
  }
  request.priority = prompt.priority;
  request.tenant = prompt.tenant;
  request.deadline_ns = prompt.deadline_ns;
  return request;
}

}  // namespace tenon
