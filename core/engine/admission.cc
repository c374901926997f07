// From the inbox into the table.
#include <algorithm>

#include "core/engine/best_of.h"
#include "core/engine/engine.h"

namespace tenon {
namespace {

// Every token but the ending ones may be drawn.
std::vector<uint64_t> all_but(std::span<const TokenId> tokens, uint32_t vocabulary) {
  std::vector<uint64_t> bits((uint64_t{vocabulary} + 63) / 64, ~uint64_t{0});
  for (TokenId token : tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocabulary) continue;
    bits[static_cast<uint32_t>(token) / 64] &= ~(uint64_t{1} << (token % 64));
  }
  return bits;
}

Status begin_sampler(Sampler& sampler, SeqId seq, const Request& request, SeqId parent) {
  const SamplingLists& lists = request.lists;
  const std::vector<std::span<const TokenId>> bad_words(lists.bad_words.begin(),
                                                        lists.bad_words.end());
  SamplingParams params = request.sampling;
  params.logit_bias = lists.logit_bias;
  params.allowed_tokens = lists.allowed_tokens;
  params.bad_words = bad_words;
  params.dry_breakers = lists.dry_breakers;
  params.order = lists.order;
  if (request.beams > 0) {
    // Nothing is drawn; what is asked for is the order of the most likely.
    params = {.temperature = 0.0f, .logprobs = std::max(1u, request.sampling.logprobs)};
  }
  return sampler.begin(seq, params, parent);
}

}  // namespace

void Engine::admit() {
  inbox_.drain(submitted_, cancelled_);
  for (SubmittedRequest& submitted : submitted_) admit_request(std::move(submitted));
  for (RequestId id : cancelled_) {
    const auto found = requests_.find(id);
    if (found == requests_.end() || found->second->live_samples == 0) continue;
    end_request(*found->second, FinishReason::cancelled, "");
  }
  rejoin_beams();
}

void Engine::admit_request(SubmittedRequest submitted) {
  ++totals_.requests;
  auto made = std::make_unique<RequestState>();
  RequestState& state = *made;
  state.id = submitted.id;
  state.request = std::move(submitted.request);
  keep_best(state.request);
  requests_.emplace(state.id, std::move(made));
  const Request& request = state.request;
  const uint64_t wanted =
      request.max_tokens == 0 ? UINT32_MAX : uint64_t{request.prompt.size()} + request.max_tokens;
  state.limit_tokens = static_cast<uint32_t>(std::min<uint64_t>(wanted, sequence_limit_));
  state.live_samples = request.samples;
  state.ending_tokens = request.stop_tokens;
  if (!request.ignore_eos) {
    state.ending_tokens.insert(state.ending_tokens.end(), parts_.eos_tokens.begin(),
                               parts_.eos_tokens.end());
  }
  std::sort(state.ending_tokens.begin(), state.ending_tokens.end());
  if (request.min_tokens > 0 && !state.ending_tokens.empty()) {
    state.not_ending = all_but(state.ending_tokens, parts_.shape->vocabulary);
  }
  begin_beams(state);
  Sequence& sequence = table_.add(state, 0, request.arrival_ns);
  if (state.beams != nullptr) {
    sequence.beam = std::make_unique<BeamPath>();
    state.beams->running = {&sequence};
  }
  if (Status status = introduce(sequence, nullptr); !status.ok()) {
    fail_request(state, std::string(status.message()));
    return;
  }
  announce(sequence);
}

Status Engine::introduce(Sequence& sequence, const Sequence* parent) {
  const Request& request = sequence.request->request;
  const SeqId parent_id = parent == nullptr ? kNoSeq : parent->id;
  // Beams speak when they are done.
  if (sequence.beam == nullptr)
    sequence.delivery = Delivery(parts_.text ? parts_.text(request) : nullptr,
                                 std::span(request.stop), request.include_stop);
  if (parent == nullptr) TENON_RETURN_IF_ERROR(begin_kv(sequence, nullptr));
  if (Status status = begin_sampler(*parts_.sampler, sequence.id, request, parent_id);
      !status.ok()) {
    return with_context("sampler '" + parts_.sampler_name + "'", status);
  }
  sequence.in_sampler = true;
  if (parts_.drafter != nullptr && sequence.beam == nullptr) {
    if (Status status = parts_.drafter->begin(sequence.id, parent_id); !status.ok()) {
      return with_context("drafter '" + parts_.drafter_name + "'", status);
    }
    sequence.in_drafter = true;
  }
  return {};
}

Status Engine::begin_kv(Sequence& sequence, const Sequence* parent, uint32_t parent_tokens) {
  Stopwatch watch(*parts_.clock, record_.times.kv_cache_ns);
  KvSequence begin;
  begin.seq = sequence.id;
  begin.key.salt = sequence.request->request.cache_salt;
  // Scoring a prompt takes the logits of all its tokens, so nothing of it may be found computed.
  if (sequence.request->request.prompt_logprobs) {
    begin.key.salt ^= sequence.request->id * 0x9e3779b97f4a7c15u;
  }
  begin.limit_tokens = sequence.request->limit_tokens;
  if (parent != nullptr) {
    begin.parent = parent->id;
    begin.parent_tokens = parent_tokens;
  }
  Status status = parts_.kv_cache->begin(begin);
  if (status.ok()) {
    sequence.in_kv_cache = true;
    return {};
  }
  return with_context("kv_cache '" + parts_.kv_cache_name + "'", status);
}

void Engine::announce(Sequence& sequence) {
  sequence.in_scheduler = true;
  Status status = parts_.scheduler->on_event(event_of(EventKind::arrived, sequence, 0));
  if (status.ok()) return;
  fail_request(*sequence.request, "scheduler '" + parts_.scheduler_name +
                                      "' refused a request: " + std::string(status.message()));
}

}  // namespace tenon
