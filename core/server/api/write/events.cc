#include "core/server/api/write/events.h"

#include <algorithm>

namespace tenon::api {

void UsageCount::add(const AnswerEvent& end) {
  if (end.prompt >= prompts_.size()) prompts_.resize(end.prompt + 1);
  Prompt& prompt = prompts_[end.prompt];
  prompt.tokens = std::max(prompt.tokens, end.prompt_tokens);
  prompt.cached = std::max(prompt.cached, std::min(end.cached_tokens, end.prompt_tokens));
  generated_ += end.generated_tokens;
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
