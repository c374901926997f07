#include "core/server/generation/answer_progress.h"

#include <algorithm>

namespace tenon::server {
namespace {

// Takes so many of the first elements away as are to be left out; how many are there then.
template <typename List>
size_t leave_out(List& list, size_t& again) {
  const size_t count = std::min(list.size(), again);
  list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(count));
  again -= count;
  return list.size();
}

}  // namespace

bool AnswerProgress::pass(api::AnswerEvent& event) {
  Told& told = told_[{event.prompt, event.sample}];
  if (told.ended) return false;
  using Kind = api::AnswerEvent::Kind;
  if (event.kind == Kind::end) {
    told.ended = true;
    return true;
  }
  if (event.kind == Kind::prompt) {
    const size_t left = leave_out(event.tokens, told.prompt_tokens_again);
    told.prompt_tokens += left;
    return left > 0;
  }
  size_t with_logprobs = told.tokens_again;
  leave_out(event.tokens, with_logprobs);
  const size_t tokens = leave_out(event.ids, told.tokens_again);
  const size_t bytes = leave_out(event.text, told.text_bytes_again);
  told.tokens += tokens;
  told.text_bytes += bytes;
  return tokens > 0 || bytes > 0;
}

void AnswerProgress::begin_again() {
  for (auto& [sample, told] : told_) {
    told.tokens_again = told.tokens;
    told.text_bytes_again = told.text_bytes;
    told.prompt_tokens_again = told.prompt_tokens;
  }
}

}  // namespace tenon::server
