#include "core/engine/step/admission.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/engine/answers/beam_groups.h"
#include "core/engine/answers/best_of.h"
#include "core/engine/answers/diffusion_check.h"
#include "core/engine/answers/permitted.h"
#include "core/engine/requests/adapter_names.h"

namespace tenon {
namespace {

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
  std::vector<VendorParam> vendor;
  for (const VendorSetting& setting : lists.params) vendor.push_back(setting.param());
  params.vendor = vendor;
  if (request.beams > 0) {
    // Nothing is drawn; what is asked for is the order of the most likely.
    params = {.temperature = 0.0f, .logprobs = std::max(1u, request.sampling.logprobs)};
  }
  return sampler.begin(seq, params, parent);
}

}  // namespace

void Admission::admit() {
  inbox_.drain(submitted_, cancelled_);
  for (SubmittedRequest& submitted : submitted_) admit_request(std::move(submitted));
  for (RequestId id : cancelled_) {
    const auto found = context_.requests.find(id);
    if (found == context_.requests.end() || found->second->live_samples == 0) continue;
    context_.end_request(*found->second, FinishReason::cancelled, "");
  }
}

void Admission::admit_request(SubmittedRequest submitted) {
  ++context_.totals.requests;
  auto made = std::make_unique<RequestState>();
  RequestState& state = *made;
  state.id = submitted.id;
  state.request = std::move(submitted.request);
  keep_best(state.request);
  context_.requests.emplace(state.id, std::move(made));
  const Request& request = state.request;
  // A limit counts one token that is never computed.
  const uint32_t answer = request.pooling != Pooling::none ? 1 : request.max_tokens;
  const uint64_t wanted = answer == 0 ? UINT32_MAX : uint64_t{request.prompt.size()} + answer;
  state.limit_tokens =
      static_cast<uint32_t>(std::min<uint64_t>(wanted, context_.sequence_limit_tokens));
  state.live_samples = request.samples;
  const Result<uint64_t> adapter = find_adapter(request.adapter, context_.parts.adapters);
  state.adapter = adapter.ok() ? *adapter : 0;  // known: submit has looked
  if (context_.parts.mask_token != kNoToken) {
    state.limit_tokens =
        static_cast<uint32_t>(request.prompt.size()) + diffusion_of(request).answer;
  }
  set_endings(state);
  Sequence& sequence = context_.table.add(state, 0, request.arrival_ns);
  if (context_.parts.mask_token != kNoToken) begin_canvas(sequence);
  if (request.grammar != nullptr) {
    Result<std::shared_ptr<grammar::Runtime>> runtime =
        context_.grammars.runtime_of(request.grammar);
    if (!runtime.ok()) return context_.fail_request(state, message_of(runtime.status()));
    sequence.matcher = std::make_unique<grammar::Matcher>(*std::move(runtime), state.ending_tokens);
  }
  if (request.beams > 0) begin_beam_group(state, sequence);
  Status status = begin_kv(sequence, nullptr, 0);
  if (status.ok()) status = introduce(sequence, kNoSeq);
  if (!status.ok()) return context_.fail_request(state, message_of(status));
  announce(sequence);
}

void Admission::set_endings(RequestState& state) const {
  const Request& request = state.request;
  const uint32_t vocabulary = context_.parts.shape->vocabulary;
  state.ending_tokens = ending_tokens_of(request, context_.parts.eos_tokens);
  if (request.min_tokens == 0 || state.ending_tokens.empty()) return;
  state.not_ending = all_but(state.ending_tokens, vocabulary);
  if (request.grammar != nullptr && request.lists.has_bans()) {
    state.permitted = permitted_tokens(request.lists, {}, vocabulary);
  }
}

DiffusionPlan Admission::diffusion_of(const Request& request) const {
  return plan_diffusion(request, answer_room(request.prompt.size(), context_.request_limits()));
}

// All of the answer is known from the first: as masks.
void Admission::begin_canvas(Sequence& sequence) const {
  const Request& request = sequence.request->request;
  const TokenId mask = context_.parts.mask_token;
  sequence.canvas = std::make_unique<Canvas>(diffusion_of(request), sequence.prompt_tokens, mask,
                                             request.sampling.seed);
  sequence.known = sequence.request->limit_tokens;
  sequence.tokens.resize(sequence.known, mask);
}

Status Admission::introduce(Sequence& sequence, SeqId parent) {
  if (sequence.pool != nullptr) return {};  // there is nothing to draw or to draft
  KeepFloatingPointState keep;
  const EngineParts& parts = context_.parts;
  const Request& request = sequence.request->request;
  // Beams speak when they are done, and nothing drafts for them.
  const bool is_beam = sequence.beam != nullptr;
  if (!is_beam) {
    sequence.text =
        TextStream(parts.text ? parts.text(request) : nullptr, request.stop, request.include_stop);
  }
  if (Status status = begin_sampler(*parts.sampler, sequence.id, request, parent); !status.ok()) {
    return with_context("sampler " + in_quotes(parts.sampler_name), status);
  }
  sequence.in_sampler = true;
  if (parts.drafter == nullptr || is_beam) return {};
  if (Status status = parts.drafter->begin(sequence.id, parent); !status.ok()) {
    return with_context("drafter " + in_quotes(parts.drafter_name), status);
  }
  sequence.in_drafter = true;
  return {};
}

Status Admission::begin_kv(Sequence& sequence, const Sequence* parent, uint32_t parent_tokens) {
  PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
  const RequestState& state = *sequence.request;
  KvSequence begin;
  begin.seq = sequence.id;
  begin.key.salt = state.request.cache_salt;
  begin.key.adapter = state.adapter;
  // Scoring a prompt takes the logits of all its tokens, and most pooling their hidden states, so
  // nothing of it may be found computed.
  const Pooling pooling = state.request.pooling;
  const bool sees_all = pooling == Pooling::mean || pooling == Pooling::first;
  // What stands in a diffusion model's cache depends on masks that are still to change.
  const bool changes = sequence.canvas != nullptr;
  if (state.request.prompt_logprobs || sees_all || changes) {
    begin.key.salt ^= state.id * 0x9e3779b97f4a7c15u;
  }
  begin.limit_tokens = state.limit_tokens;
  if (parent != nullptr) {
    begin.parent = parent->id;
    begin.parent_tokens = parent_tokens;
  }
  Status status = context_.parts.kv_cache->begin(begin);
  if (!status.ok())
    return with_context("kv_cache " + in_quotes(context_.parts.kv_cache_name), status);
  sequence.in_kv_cache = true;
  return {};
}

void Admission::announce(Sequence& sequence) {
  sequence.in_scheduler = true;
  KeepFloatingPointState keep;
  const EngineParts& parts = context_.parts;
  Status status = parts.scheduler->on_event(event_of(EventKind::arrived, sequence, 0));
  if (status.ok()) return;
  context_.fail_request(*sequence.request, plugin_fault("scheduler", parts.scheduler_name,
                                                        "refused a request", status));
}

Status Admission::introduce_fork(Sequence& child, const Sequence& parent) {
  if (parent.matcher != nullptr) {
    child.matcher = std::make_unique<grammar::Matcher>(*parent.matcher);
  }
  return introduce(child, parent.id);
}

// A beam runs where its group does, so that to a scheduler they were admitted together.
Status Admission::begin_fork(Sequence& child, const Sequence& parent, uint32_t tokens) {
  const bool room = context_.table.running().size() < context_.parts.limits.max_sequences;
  Status status;
  if (room && parent.state == SequenceState::running) {
    status = begin_kv(child, &parent, tokens);
    if (status.ok()) {
      context_.table.admit(child, child.beam != nullptr ? &parent : nullptr);
      child.computed = tokens;
      child.furthest = std::max(child.furthest, tokens);
      if (child.record.admitted_ns < 0) child.record.admitted_ns = context_.start_ns;
    }
  }
  if (!child.in_kv_cache && (status.ok() || status.code() == StatusCode::out_of_kv)) {
    status = begin_kv(child, nullptr, 0);
  }
  return status;
}

void Admission::place_fork(Sequence& child, const Sequence& parent, uint32_t tokens) {
  Status status = begin_fork(child, parent, tokens);
  if (!status.ok()) return context_.fail_request(*child.request, message_of(status));
  announce(child);
}

void Admission::fork_anew(Sequence& child, const Sequence& parent, uint32_t tokens) {
  Status status = context_.end_kv(child);
  if (status.ok()) status = begin_fork(child, parent, tokens);
  if (!status.ok()) context_.fail_request(*child.request, std::string(status.message()));
}

}  // namespace tenon
