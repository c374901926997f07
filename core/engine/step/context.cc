#include "core/engine/step/context.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/engine/answers/beams/beam_answer.h"

namespace tenon {
namespace {

// Whether memory is counted in slots of state, because no layer keeps tokens.
bool counts_slots(const EngineParts& parts) {
  return parts.geometry.group_count > 0 &&
         parts.shape->groups[parts.shape->ledger_group].kind == KvKind::recurrent;
}

uint64_t capacity_of(const EngineParts& parts) {
  if (parts.geometry.group_count == 0) return UINT32_MAX;
  const KvGroupGeometry& group = parts.geometry.groups[parts.shape->ledger_group];
  return uint64_t{group.blocks} * group.block_tokens;
}

// Where nothing is stored, nothing can be mixed up (decision 155).
bool follows_contents(const EngineParts& parts, const EngineOptions& options) {
  return options.check_calls || parts.executor == nullptr || parts.executor->reads_tables();
}

Contracts contracts_of(const EngineParts& parts, const EngineOptions& options) {
  const CallChecks checks = options.check_calls ? CallChecks::more : CallChecks::usual;
  Contracts contracts;
  contracts.scheduler = std::make_unique<CheckedScheduler>(*parts.scheduler, parts.scheduler_name,
                                                           checks, options.longest_wait_ns);
  contracts.kv_cache =
      std::make_unique<CheckedKvCache>(*parts.kv_cache, parts.kv_cache_name, *parts.shape,
                                       parts.geometry, checks, follows_contents(parts, options));
  contracts.sampler = std::make_unique<CheckedSampler>(*parts.sampler, parts.sampler_name, checks);
  if (parts.drafter != nullptr) {
    contracts.drafter = std::make_unique<CheckedDrafter>(*parts.drafter, parts.drafter_name,
                                                         parts.shape->vocabulary, checks);
  }
  return contracts;
}

EngineParts with(const Contracts& contracts, EngineParts parts) {
  parts.scheduler = contracts.scheduler.get();
  parts.kv_cache = contracts.kv_cache.get();
  parts.sampler = contracts.sampler.get();
  parts.drafter = contracts.drafter.get();
  return parts;
}

// A sequence of any length has one state, or what a manager that evicts keeps of it.
bool bounded_by_context(const EngineParts& parts, uint64_t capacity) {
  return counts_slots(parts) ||
         (parts.eviction != nullptr && parts.eviction->most_tokens <= capacity);
}

}  // namespace

// The last token of a sequence is never computed and needs no slot.
EngineContext::EngineContext(EngineParts engine_parts, EngineOptions engine_options)
    : contracts(contracts_of(engine_parts, engine_options)),
      parts(with(contracts, std::move(engine_parts))),
      options(std::move(engine_options)),
      kv_tokens(capacity_of(parts)),
      sequence_limit_tokens(static_cast<uint32_t>(
          std::min<uint64_t>(parts.limits.context_tokens,
                             bounded_by_context(parts, kv_tokens) ? UINT32_MAX : kv_tokens + 1))),
      grammars(parts.grammar_vocabulary, parts.shape->vocabulary) {}

RequestLimits EngineContext::request_limits() const {
  return {.scheduler = parts.limits,
          .vocabulary = parts.shape->vocabulary,
          .sequence_tokens = sequence_limit_tokens,
          .kv_tokens = kv_tokens,
          .held_tokens = held_tokens(),
          .kv_block_tokens = block_tokens(),
          .state_slots = state_slots(),
          .forks_share = parts.scores == nullptr,
          .sampler_params = parts.sampler_params,
          .sampler_name = parts.sampler_name,
          .sampler_stages = parts.sampler_stages,
          .sampler_logprobs = parts.sampler_logprobs,
          .adapters = parts.adapters,
          .mask_token = parts.mask_token,
          .eos_tokens = parts.eos_tokens};
}

uint32_t EngineContext::block_tokens() const {
  if (parts.geometry.group_count == 0) return 1;
  if (counts_slots(parts)) return 0;
  return std::max(parts.geometry.groups[parts.shape->ledger_group].block_tokens, 1u);
}

uint64_t EngineContext::held_tokens() const {
  return parts.eviction == nullptr ? UINT64_MAX : parts.eviction->most_tokens;
}

uint64_t EngineContext::state_slots() const {
  uint64_t fewest = UINT64_MAX;
  const uint32_t groups = std::min(parts.geometry.group_count, parts.shape->group_count);
  for (GroupId group = 0; group < groups; ++group) {
    if (parts.shape->groups[group].kind != KvKind::recurrent) continue;
    fewest = std::min<uint64_t>(fewest, parts.geometry.groups[group].blocks);
  }
  return fewest;
}

// Of one that evicts, they say what stands where.
bool EngineContext::asks_tables() const {
  return contracts.kv_cache->follows_contents() || parts.eviction != nullptr;
}

bool EngineContext::may_run(const Sequence& sequence) const {
  if (!alone) return true;
  return alone->seq == kNoSeq ? sequence.request->id == alone->request : sequence.id == alone->seq;
}

void EngineContext::begin_pass() {
  start_ns = parts.clock->now_ns();
  times = {};
}

void EngineContext::sweep(bool in_flight) {
  table.sweep(in_flight);
  for (RequestId id : ended_before_) requests.erase(id);
  ended_before_.clear();
  ended_before_.swap(ended_requests_);
  if (in_flight) return;
  for (RequestId id : ended_before_) requests.erase(id);
  ended_before_.clear();
}

Status EngineContext::end_kv(Sequence& sequence) {
  PluginCall call(*parts.clock, times.kv_cache_ns);
  Status status = parts.kv_cache->release(sequence.id, ReleaseHow::end);
  sequence.in_kv_cache = !status.ok();
  if (status.ok()) return status;
  return failed(
      plugin_fault("kv_cache", parts.kv_cache_name, "could not release a sequence", status));
}

void EngineContext::retire(Sequence& sequence, EventKind how) {
  KeepFloatingPointState keep;
  if (sequence.in_kv_cache) {
    if (Status status = end_kv(sequence); !status.ok()) fault(std::string(status.message()));
  }
  if (sequence.in_sampler) {
    Status status = parts.sampler->end(sequence.id);
    if (!status.ok()) {
      fault(plugin_fault("sampler", parts.sampler_name, "could not end a sequence", status));
    }
  }
  if (sequence.in_drafter) {
    Status status = parts.drafter->end(sequence.id);
    if (!status.ok()) {
      fault(plugin_fault("drafter", parts.drafter_name, "could not end a sequence", status));
    }
  }
  // The sequence ends whatever the scheduler says to it.
  if (sequence.in_scheduler) {
    (void)parts.scheduler->on_event(event_of(how, sequence, step_id));
  }
  table.end(sequence);
}

KvUsage EngineContext::kv_usage() {
  KvUsage usage;
  const Status status = parts.kv_cache->usage(parts.shape->ledger_group, usage);
  if (status.ok()) return usage;
  fault(plugin_fault("kv_cache", parts.kv_cache_name, "could not say what is used", status));
  return {};
}

void EngineContext::tell_accepted(const Sequence& sequence, uint32_t drafted, uint32_t accepted) {
  if (!sequence.in_drafter) return;
  PluginCall call(*parts.clock, times.drafter_ns);
  Status status = parts.drafter->accept(sequence.id, sequence.known_tokens(), drafted, accepted);
  if (status.ok()) return;
  fault(plugin_fault("drafter", parts.drafter_name, "could not take a result", status));
}

void EngineContext::tell_progress(Sequence& sequence, uint32_t accepted_drafts) {
  KeepFloatingPointState keep;
  SequenceEvent event = event_of(EventKind::progressed, sequence, step_id);
  event.accepted_drafts = accepted_drafts;
  Status status = parts.scheduler->on_event(event);
  if (status.ok()) return;
  fail_request(*sequence.request,
               plugin_fault("scheduler", parts.scheduler_name, "could not take a result", status));
}

void EngineContext::end_sample(Sequence& sequence, FinishReason reason, std::string_view message,
                               std::string_view stop, Blame blame) {
  RequestState& request = *sequence.request;
  sequence.record.end_ns = parts.clock->now_ns();
  sequence.record.generated_tokens = sequence.generated();
  sequence.record.logits_digest = sequence.digest;
  const bool aborted = reason == FinishReason::cancelled || reason == FinishReason::error;
  retire(sequence, aborted ? EventKind::aborted : EventKind::finished);
  --request.live_samples;
  ++totals.samples_ended;
  totals.prompt_tokens += sequence.prompt_tokens;
  if (request.request.sink != nullptr) {
    request.request.sink->on_end(
        {request.id, sequence.sample, reason, message, stop, &sequence.record, blame});
  }
  if (request.live_samples == 0) ended_requests_.push_back(request.id);
}

void EngineContext::end_request(RequestState& request, FinishReason reason,
                                std::string_view message, Blame blame) {
  if (request.beam_group != nullptr) return end_beam_group(request, 0, reason, message, blame);
  RequestRecord unborn;
  for (Sequence* sequence : table.all()) {
    if (sequence->request != &request) continue;
    unborn = sequence->record;
    (void)sequence->text.finish();
    send_delta(*sequence, {});
    end_sample(*sequence, reason, message, {}, blame);
  }
  // Samples that were to be forked later end without ever having had a sequence.
  for (uint32_t sample = request.forked_samples; sample < request.request.samples; ++sample) {
    unborn.sample = sample;
    if (request.request.sink != nullptr) {
      request.request.sink->on_end({request.id, sample, reason, message, {}, &unborn, blame});
    }
    if (--request.live_samples == 0) ended_requests_.push_back(request.id);
  }
  request.forked_samples = request.request.samples;
}

void EngineContext::end_beam_group(RequestState& request, uint32_t first, FinishReason reason,
                                   std::string_view message, Blame blame) {
  RequestRecord record;
  const bool aborted = first == 0;
  for (Sequence* beam : table.all()) {
    if (beam->request != &request) continue;
    record = beam->record;
    retire(*beam, aborted ? EventKind::aborted : EventKind::finished);
  }
  request.beam_group->running.clear();
  record.end_ns = parts.clock->now_ns();
  const uint32_t samples = request.request.samples;
  for (uint32_t sample = first; sample < samples; ++sample) {
    record.sample = sample;
    if (request.request.sink != nullptr) {
      request.request.sink->on_end({request.id, sample, reason, message, {}, &record, blame});
    }
  }
  totals.samples_ended += samples;
  totals.prompt_tokens += uint64_t{request.request.prompt.size()} * samples;
  request.live_samples = 0;
  ended_requests_.push_back(request.id);
}

void EngineContext::fault(const std::string& message) {
  last_fault = message;
  log(LogLevel::warning, "engine", message);
}

void EngineContext::fail_request(RequestState& request, const std::string& message) {
  fault(message);
  end_request(request, FinishReason::error, message);
}

void EngineContext::refuse_request(RequestState& request, const std::string& message) {
  end_request(request, FinishReason::error, message, Blame::request);
}

void EngineContext::fail_sequences(std::span<Sequence* const> sequences,
                                   const std::string& message) {
  fault(message);
  for (Sequence* sequence : sequences) {
    // An earlier one's request may have taken it along.
    if (sequence->state == SequenceState::ended) continue;
    end_request(*sequence->request, FinishReason::error, message);
  }
}

void send_delta(Sequence& sequence, std::span<const GeneratedToken> tokens) {
  RequestSink* sink = sequence.request->request.sink.get();
  const std::string& text = sequence.text.ready();
  if (sink != nullptr && (!tokens.empty() || !text.empty())) {
    sink->on_delta({sequence.request->id, sequence.sample, text, tokens, &sequence.record});
  }
  sequence.text.clear_ready();
}

std::string plugin_fault(std::string_view interface, std::string_view name, std::string_view did,
                         const Status& status) {
  std::string text(interface);
  text.append(" '").append(name).append("' ").append(did).append(": ");
  return text.append(status.message());
}

}  // namespace tenon
