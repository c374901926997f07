#include "core/server/api/write/events.h"

#include <algorithm>

namespace tenon::api {

void UsageCount::add(const AnswerEvent& event) {
  if (event.kind == AnswerEvent::Kind::prompt) return;
  if (event.prompt >= prompts_.size()) prompts_.resize(event.prompt + 1);
  Prompt& prompt = prompts_[event.prompt];
  prompt.tokens = std::max(prompt.tokens, event.prompt_tokens);
  prompt.cached = std::max(prompt.cached, std::min(event.cached_tokens, event.prompt_tokens));
  if (event.sample >= prompt.generated.size()) prompt.generated.resize(event.sample + 1);
  uint64_t& generated = prompt.generated[event.sample];
  generated_ -= generated;
  // An end has the last word.
  generated =
      event.kind == AnswerEvent::Kind::end ? event.generated_tokens : generated + event.ids.size();
  generated_ += generated;
}

Usage UsageCount::usage() const {
  Usage sum{.generated_tokens = generated_};
  for (const Prompt& prompt : prompts_) {
    sum.prompt_tokens += prompt.tokens;
    sum.cached_tokens += prompt.cached;
  }
  return sum;
}

}  // namespace tenon::api
