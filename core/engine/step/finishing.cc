#include "core/engine/step/finishing.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/engine/answers/grammar_masks.h"
#include "core/engine/step/draft_runner.h"

namespace tenon {

void Finishing::resolve(Step& step) {
  const EngineParts& parts = context_.parts;
  for (const Share& share : step.shares) {
    if (share.parent != nullptr || share.sequence->state == SequenceState::ended) continue;
    Status status = parts.scores == nullptr ? Status() : score_share(step, share);
    if (status.ok()) status = resolve_share(share);
    if (!status.ok()) {
      context_.fail_request(
          *share.sequence->request,
          plugin_fault("kv_cache", parts.kv_cache_name, "could not resolve a step", status));
    }
  }
  for (const Share& share : step.shares) {
    if (share.parent == nullptr || share.sequence->state == SequenceState::ended) continue;
    admission_.place_fork(*share.sequence, *share.parent, share.parent->computed);
  }
}

// What the rows that stay gave to entries; those of drafts that were refused have not been.
Status Finishing::score_share(const Step& step, const Share& share) {
  PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
  for (const GroupId group : step.scores.groups()) {
    const auto add = [&](uint32_t line) {
      return context_.contracts.kv_cache->score(*context_.parts.scores, share.sequence->id, group,
                                                step.scores.line(group, share.place, line));
    };
    TENON_RETURN_IF_ERROR(add(EntryScores::kKnownRows));
    for (uint32_t i = 0; i < share.accepted; ++i) {
      TENON_RETURN_IF_ERROR(add(EntryScores::line_of(share.accepted_draft(i))));
    }
  }
  return {};
}

Status Finishing::resolve_share(const Share& share) {
  PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
  Sequence& sequence = *share.sequence;
  // The next step of a diffusion computes all of its tokens anew.
  kept_.resize(sequence.canvas != nullptr ? 0 : share.tokens);
  std::iota(kept_.begin(), kept_.end(), 0u);
  for (uint32_t i = 0; i < share.accepted; ++i) {
    kept_.push_back(share.tokens + share.accepted_draft(i));
  }
  sequence.computed = share.base + static_cast<uint32_t>(kept_.size());
  const EngineParts& parts = context_.parts;
  TENON_RETURN_IF_ERROR(parts.kv_cache->resolve({.seq = sequence.id,
                                                 .tokens = sequence.known_tokens(),
                                                 .base = share.base,
                                                 .kept = kept_,
                                                 .computed = sequence.computed,
                                                 .in_flight = sequence.in_flight}));
  if (parts.draft_runner == nullptr || share.parents.empty()) return {};
  return parts.draft_runner->forget_behind(sequence.id, share.base + share.tokens);
}

void Finishing::deliver(Step& step) {
  for (const Share& share : step.shares) {
    if (share.sequence->state != SequenceState::ended) deliver_share(step, share);
  }
}

void Finishing::deliver_share(Step& step, const Share& share) {
  Sequence& sequence = *share.sequence;
  if (sequence.pool != nullptr) return pooled_outputs_.deliver(sequence);
  if (sequence.canvas != nullptr) return deliver_canvas(step, share);
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
    end = take_token(sequence, result.token, stop);
  }
  sequence.tokens.resize(sequence.known);
  hand_over(step, share, end, stop);
}

// Tokens of an answer made by diffusion, as far as none in front of them is still to come.
void Finishing::deliver_canvas(Step& step, const Share& share) {
  Sequence& sequence = *share.sequence;
  Canvas& canvas = *sequence.canvas;
  std::optional<FinishReason> end;
  const std::string* stop = nullptr;
  tokens_.clear();
  while (!end && canvas.next_is_final(sequence.known_tokens())) {
    const TokenId token = sequence.tokens[sequence.prompt_tokens + canvas.delivered()];
    const Canvas::Kept& kept = canvas.deliver();
    sequence.record.token_ns.push_back(context_.parts.clock->now_ns());
    tokens_.push_back({token, kept.logprob, kept.rank, kept.top});
    end = take_token(sequence, token, stop);
  }
  hand_over(step, share, end, stop);
}

void Finishing::hand_over(Step& step, const Share& share, std::optional<FinishReason> end,
                          const std::string* stop) {
  Sequence& sequence = *share.sequence;
  step.record.tokens += static_cast<uint32_t>(tokens_.size());
  if (end && stop == nullptr) stop = sequence.text.finish();
  if (stop != nullptr) end = FinishReason::stop;
  send_delta(sequence, tokens_);
  if (end) {
    return context_.end_sample(sequence, *end, "", stop == nullptr ? std::string_view() : *stop);
  }
  drafting_.tell_accepted(sequence, share.drafts, share.accepted);
  context_.tell_progress(sequence, share.accepted);
}

// Decides whether the sample ends with this token; its text goes into the stream.
std::optional<FinishReason> Finishing::take_token(Sequence& sequence, TokenId token,
                                                  const std::string*& stop) {
  const Request& request = sequence.request->request;
  if (const auto reason = ends_with(sequence, sequence.generated(), token)) {
    const bool shown = *reason == FinishReason::stop && request.include_stop;
    if (shown) (void)sequence.text.push(token, false);
    return reason;
  }
  stop = sequence.text.push(token, sequence.generated() >= request.min_tokens);
  if (stop != nullptr) return FinishReason::stop;
  const bool is_latest = sequence.known == sequence.tokens.size();
  if (is_latest && ends_with_grammar(sequence)) return FinishReason::stop;
  const uint32_t tokens = sequence.prompt_tokens + sequence.generated();
  if (tokens >= sequence.request->limit_tokens) return FinishReason::length;
  return std::nullopt;
}

// Whether this token itself ends the sample. An ending token is none of the min_tokens; a stop
// string may end with the last of them. A grammar's mask lets an ending token through earlier where
// the answer is whole (permitted.h).
std::optional<FinishReason> Finishing::ends_with(const Sequence& sequence, uint32_t generated,
                                                 TokenId token) {
  const RequestState& request = *sequence.request;
  const auto& ending = request.ending_tokens;
  const bool may_end = generated > request.request.min_tokens || sequence.matcher != nullptr;
  if (!may_end || !std::binary_search(ending.begin(), ending.end(), token)) return std::nullopt;
  const auto& stops = request.request.stop_tokens;
  const bool asked = std::find(stops.begin(), stops.end(), token) != stops.end();
  return asked ? FinishReason::stop : FinishReason::eos;
}

void Finishing::look_for_end(const Step& step, const Share& share) {
  Sequence& sequence = *share.sequence;
  if (share.result_count == 0) return;
  const TokenId last = step.results[share.first_result + share.result_count - 1].token;
  sequence.ending = ends_with_grammar(sequence) ||
                    sequence.known >= sequence.request->limit_tokens ||
                    ends_with(sequence, sequence.generated(), last).has_value();
}

}  // namespace tenon
