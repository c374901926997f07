#include "core/engine/answers/token_answer.h"

#include <algorithm>

#include "core/engine/answers/no_token.h"
#include "core/engine/records/digest.h"

namespace tenon {

// The last known token and each draft after it say what comes next.
RowUse TokenAnswer::use_of(uint32_t position) const {
  const uint32_t next = position + 1;
  if (next >= sequence_.known + sequence_.undrawn) return RowUse::drawn;
  const bool scored = sequence_.request->request.prompt_logprobs &&
                      next >= sequence_.request->scored && next < sequence_.prompt_tokens;
  return scored ? RowUse::scored : RowUse::none;
}

uint32_t TokenAnswer::tops() const {
  return sequence_.request->request.sampling.logprobs;
}

// Of a chain, the drafts before a row stand right after what is known. Of a tree, the sampler adds
// those on the way to the row.
SampleRow TokenAnswer::row_of(const Step&, const Share& share, uint32_t i) const {
  const uint32_t history = sequence_.known + (share.parents.empty() ? i : 0);
  return sample_row_of(sequence_, {sequence_.tokens.data(), history},
                       sequence_.known + share.depth_of(i));
}

// Appends what was drawn to what is known. `count` tokens, of which all but the last are drafts.
void TokenAnswer::take(Step& step, Share& share, uint32_t count) {
  Sequence& sequence = sequence_;
  if (count == 0 || step.results[share.first_result].token == kNoToken) {
    return no_token(context_, sequence, step.rows[share.first_result]);
  }
  for (uint32_t i = 0; i < count; ++i) {
    const TokenId token = step.results[share.first_result + i].token;
    if (Status followed = sequence.grammar.follow(token); !followed.ok()) {
      return context_.fail_request(*sequence.request, message_of(followed));
    }
    if (sequence.grammar.ends()) count = i + 1;
  }
  share.result_count = count;
  share.accepted = count - 1;
  if (!share.path.empty()) share.path = share.path.first(share.accepted);
  sequence.tokens.resize(sequence.known);
  uint64_t digest = sequence.digest;
  for (uint32_t i = 0; i < count; ++i) {
    sequence.tokens.push_back(step.results[share.first_result + i].token);
    // Rows of a tree stand as its drafts do; from here on each stands with its token. Paths rise.
    if (i > 0) {
      step.rows[share.first_result + i] =
          step.rows[share.first_result + share.accepted_draft(i - 1) + 1];
    }
    if (step.digests.empty()) continue;
    // Now: the logits are the executor's again when the next step is launched.
    const SampleRow& row = step.rows[share.first_result + i];
    step.digests[share.first_result + i] = digest =
        extend_digest(digest, row.logits, row.vocabulary);
  }
  sequence.known += count;
  sequence.undrawn = 0;
  sequence.record.accepted_tokens += share.accepted;
  step.record.accepted_drafts += share.accepted;
  context_.totals.drafts.add(share.drafts, share.accepted);
}

bool TokenAnswer::at_end(const Step& step, const Share& share) const {
  const TokenId last = step.results[share.first_result + share.result_count - 1].token;
  return sequence_.grammar.ends() || sequence_.known >= sequence_.request->limit_tokens ||
         end_by(last).has_value();
}

void TokenAnswer::deliver(Step& step, const Share& share) {
  Sequence& sequence = sequence_;
  if (share.result_count == 0) return context_.tell_progress(sequence, share.accepted);
  const uint32_t before = sequence.known - share.result_count;
  std::optional<FinishReason> end;
  const std::string* stop = nullptr;
  tokens_.clear();
  for (uint32_t i = 0; i < share.result_count && !end; ++i) {
    const SampleResult& result = step.results[share.first_result + i];
    sequence.known = before + i + 1;
    if (!step.digests.empty()) sequence.digest = step.digests[share.first_result + i];
    sequence.record.token_ns.push_back(context_.parts.clock->now_ns());
    tokens_.push_back({result.token, result.logprob, result.rank,
                       result.top.first(std::min<size_t>(result.top_count, result.top.size()))});
    end = write(result.token, stop);
  }
  sequence.tokens.resize(sequence.known);
  hand_over(step, share, end, stop);
}

void TokenAnswer::hand_over(Step& step, const Share& share, std::optional<FinishReason> end,
                            const std::string* stop) {
  Sequence& sequence = sequence_;
  if (send(step, end, stop)) return;
  context_.tell_accepted(sequence, share.drafts, share.accepted);
  context_.tell_progress(sequence, share.accepted);
}

// Whether that ended the sample.
bool TokenAnswer::send(Step& step, std::optional<FinishReason> end, const std::string* stop) {
  Sequence& sequence = sequence_;
  step.record.tokens += static_cast<uint32_t>(tokens_.size());
  if (end && stop == nullptr) stop = sequence.text.finish();
  if (stop != nullptr) end = FinishReason::stop;
  send_delta(sequence, tokens_);
  if (!end) return false;
  context_.end_sample(sequence, *end, "", stop == nullptr ? std::string_view() : *stop);
  return true;
}

// Decides whether the sample ends with this token; its text goes into the stream.
std::optional<FinishReason> TokenAnswer::write(TokenId token, const std::string*& stop) {
  Sequence& sequence = sequence_;
  const Request& request = sequence.request->request;
  if (const auto reason = end_by(token)) {
    const bool shown = *reason == FinishReason::stop && request.include_stop;
    if (shown) (void)sequence.text.push(token, false);
    return reason;
  }
  stop = sequence.text.push(token, sequence.generated() >= request.min_tokens);
  if (stop != nullptr) return FinishReason::stop;
  const bool is_latest = sequence.known == sequence.tokens.size();
  if (is_latest && sequence.grammar.ends()) return FinishReason::stop;
  const uint32_t tokens = sequence.prompt_tokens + sequence.generated();
  if (tokens >= sequence.request->limit_tokens) return FinishReason::length;
  return std::nullopt;
}

// Whether this token itself ends the sample. An ending token is none of the min_tokens; a stop
// string may end with the last of them. A grammar's mask lets an ending token through earlier where
// the answer is whole (permitted.h).
std::optional<FinishReason> TokenAnswer::end_by(TokenId token) const {
  const RequestState& request = *sequence_.request;
  const auto& ending = request.ending_tokens;
  const bool may_end = generated() > request.request.min_tokens || sequence_.grammar.binds();
  if (!may_end || !std::binary_search(ending.begin(), ending.end(), token)) return std::nullopt;
  const auto& stops = request.request.stop_tokens;
  const bool asked = std::find(stops.begin(), stops.end(), token) != stops.end();
  return asked ? FinishReason::stop : FinishReason::eos;
}

}  // namespace tenon
