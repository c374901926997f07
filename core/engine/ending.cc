// How samples and requests end, and what becomes of faults.
#include "core/base/log.h"
#include "core/engine/engine.h"

namespace tenon {

void Engine::fault(const std::string& message) {
  last_fault_ = message;
  log(LogLevel::warning, "engine", message);
}

// Takes a sequence out of everything that knows it.
void Engine::retire(Sequence& sequence, EventKind how) {
  if (sequence.in_kv_cache) {
    Stopwatch watch(*parts_.clock, record_.times.kv_cache_ns);
    Status status = parts_.kv_cache->release(sequence.id, KVCacheManager::Release::end);
    if (!status.ok()) {
      fault("kv_cache '" + parts_.kv_cache_name +
            "' could not release a sequence: " + std::string(status.message()));
    }
  }
  if (sequence.in_sampler) parts_.sampler->end(sequence.id);
  if (sequence.in_drafter) parts_.drafter->end(sequence.id);
  // The sequence ends whatever the scheduler says to it.
  if (sequence.in_scheduler) {
    (void)parts_.scheduler->on_event(event_of(how, sequence, step_id_));
  }
  table_.end(sequence);
}

void Engine::end_sequence(Sequence& sequence, FinishReason reason, std::string_view message,
                          std::string_view stop) {
  RequestState& request = *sequence.request;
  sequence.record.end_ns = parts_.clock->now_ns();
  sequence.record.generated_tokens = sequence.generated();
  sequence.record.logits_digest = sequence.digest;
  const bool aborted = reason == FinishReason::cancelled || reason == FinishReason::error;
  retire(sequence, aborted ? EventKind::aborted : EventKind::finished);
  --request.live_samples;
  ++totals_.samples_ended;
  totals_.prompt_tokens += sequence.prompt_tokens;
  if (request.request.sink != nullptr) {
    request.request.sink->on_end(
        {request.id, sequence.sample, reason, message, stop, &sequence.record});
  }
  if (request.live_samples == 0) ended_requests_.push_back(request.id);
}

void Engine::end_request(RequestState& request, FinishReason reason, std::string_view message) {
  if (request.beams != nullptr) return end_beams(request, 0, reason, message);
  RequestRecord unborn;
  for (Sequence* sequence : table_.all()) {
    if (sequence->request != &request) continue;
    unborn = sequence->record;
    flush_text(*sequence);
    end_sequence(*sequence, reason, message);
  }
  // Samples that were to be forked later end without ever having had a sequence.
  for (uint32_t sample = request.forked_samples; sample < request.request.samples; ++sample) {
    unborn.sample = sample;
    if (request.request.sink != nullptr) {
      request.request.sink->on_end({request.id, sample, reason, message, {}, &unborn});
    }
    if (--request.live_samples == 0) ended_requests_.push_back(request.id);
  }
  request.forked_samples = request.request.samples;
}

void Engine::fail_request(RequestState& request, const std::string& message) {
  fault(message);
  end_request(request, FinishReason::error, message);
}

void Engine::fail_sequences(std::span<Sequence* const> sequences, const std::string& message) {
  fault(message);
  for (Sequence* sequence : sequences) {
    // An earlier one's request may have taken it along.
    if (sequence->state == SequenceState::ended) continue;
    end_request(*sequence->request, FinishReason::error, message);
  }
}

}  // namespace tenon
