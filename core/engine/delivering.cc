// From tokens to the caller: digests, ends, text.
#include <algorithm>
#include <string>

#include "core/engine/digest.h"
#include "core/engine/engine.h"

namespace tenon {

void Engine::deliver() {
  for (Sequence* sequence : in_step_) {
    if (sequence->state != SequenceState::ended) deliver_sequence(*sequence);
  }
  for (const Fork& fork : forks_) {
    if (fork.child->state != SequenceState::ended) deliver_sequence(*fork.child);
  }
}

void Engine::deliver_sequence(Sequence& sequence) {
  const StepShare share = sequence.share;
  if (share.result_count == 0) {
    progressed(sequence);
    return;
  }
  const uint32_t before = sequence.known - share.result_count;
  std::optional<FinishReason> end;
  const std::string* stop = nullptr;
  generated_.clear();
  for (uint32_t i = 0; i < share.result_count && !end; ++i) {
    const SampleResult& result = results_[share.first_result + i];
    sequence.known = before + i + 1;
    if (options_.logits_digest) {
      sequence.digest =
          extend_digest(sequence.digest, rows_[share.first_result + i].logits, output_.vocabulary);
    }
    sequence.record.token_ns.push_back(parts_.clock->now_ns());
    generated_.push_back({result.token, result.logprob, result.rank,
                          result.top.first(std::min<size_t>(result.top_count, result.top.size()))});
    end = take_token(sequence, result.token, stop);
  }
  record_.tokens += static_cast<uint32_t>(generated_.size());
  sequence.tokens.resize(sequence.known);
  if (end && stop == nullptr) stop = sequence.delivery.finish();
  if (stop != nullptr) end = FinishReason::stop;
  send(sequence, generated_);
  if (end) {
    end_sequence(sequence, *end, "", stop == nullptr ? std::string_view() : *stop);
    return;
  }
  tell_drafter(sequence, share.drafts, share.accepted);
  progressed(sequence);
}

// Decides whether the sample ends with this token; its text goes to the delivery.
std::optional<FinishReason> Engine::take_token(Sequence& sequence, TokenId token,
                                               const std::string*& stop) {
  const RequestState& request = *sequence.request;
  const uint32_t min_tokens = request.request.min_tokens;
  const auto& ending = request.ending_tokens;
  // An ending token is none of the min_tokens; a stop string may end with the last of them.
  if (sequence.generated() > min_tokens &&
      std::binary_search(ending.begin(), ending.end(), token)) {
    const auto& stops = request.request.stop_tokens;
    const bool asked = std::find(stops.begin(), stops.end(), token) != stops.end();
    if (asked && request.request.include_stop) (void)sequence.delivery.push(token, false);
    return asked ? FinishReason::stop : FinishReason::eos;
  }
  stop = sequence.delivery.push(token, sequence.generated() >= min_tokens);
  if (stop != nullptr) return FinishReason::stop;
  if (sequence.known >= request.limit_tokens) return FinishReason::length;
  return std::nullopt;
}

void Engine::send(Sequence& sequence, std::span<const GeneratedToken> tokens) {
  RequestSink* sink = sequence.request->request.sink.get();
  const std::string& text = sequence.delivery.ready();
  if (sink != nullptr && (!tokens.empty() || !text.empty())) {
    sink->on_delta({sequence.request->id, sequence.sample, text, tokens});
  }
  sequence.delivery.clear_ready();
}

void Engine::flush_text(Sequence& sequence) {
  (void)sequence.delivery.finish();
  send(sequence, {});
}

void Engine::tell_drafter(Sequence& sequence, uint32_t drafted, uint32_t accepted) {
  if (!sequence.in_drafter) return;
  Stopwatch watch(*parts_.clock, record_.times.drafter_ns);
  Status status = parts_.drafter->accept(sequence.id, sequence.known_tokens(), drafted, accepted);
  if (!status.ok()) {
    fault("drafter '" + parts_.drafter_name +
          "' could not take a result: " + std::string(status.message()));
  }
}

void Engine::tell_drafter_cost() {
  if (parts_.drafter == nullptr || record_.rows == 0) return;
  parts_.drafter->measured({last_step_, record_.draft_rows, record_.times.drafter_ns});
}

void Engine::progressed(Sequence& sequence) {
  SequenceEvent event = event_of(EventKind::progressed, sequence, step_id_);
  event.accepted_drafts = sequence.share.accepted;
  Status status = parts_.scheduler->on_event(event);
  if (status.ok()) return;
  fail_request(*sequence.request,
               "scheduler '" + parts_.scheduler_name +
                   "' could not take a result: " + std::string(status.message()));
}

}  // namespace tenon
