#include "core/engine/step/joining.h"

#include <algorithm>
#include <vector>

#include "core/base/quote.h"
#include "core/engine/answers/token_answer.h"

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

// A beam runs where its group does, so that to a scheduler they were admitted together.
Status begin_fork(EngineContext& context, Sequence& child, const Sequence& parent,
                  uint32_t tokens) {
  const bool room = context.table.running().size() < context.parts.limits.max_sequences;
  Status status;
  if (room && parent.state == SequenceState::running) {
    status = begin_kv(context, child, &parent, tokens);
    if (status.ok()) {
      context.table.admit(child, child.answer->traits.grouped ? &parent : nullptr);
      child.computed = tokens;
      child.furthest = std::max(child.furthest, tokens);
      if (child.record.admitted_ns < 0) child.record.admitted_ns = context.start_ns;
    }
  }
  if (!child.in_kv_cache && (status.ok() || status.code() == StatusCode::out_of_kv)) {
    status = begin_kv(context, child, nullptr, 0);
  }
  return status;
}

}  // namespace

Status introduce(EngineContext& context, Sequence& sequence, SeqId parent) {
  const AnswerTraits& traits = sequence.answer->traits;
  if (!traits.sampled) return {};
  KeepFloatingPointState keep;
  const EngineParts& parts = context.parts;
  const Request& request = sequence.request->request;
  if (traits.has_text) {
    sequence.text =
        TextStream(parts.text ? parts.text(request) : nullptr, request.stop, request.include_stop);
  }
  if (Status status = begin_sampler(*parts.sampler, sequence.id, request, parent); !status.ok()) {
    return with_context("sampler " + in_quotes(parts.sampler_name), status);
  }
  sequence.in_sampler = true;
  if (parts.drafter == nullptr || !traits.drafted) return {};
  if (Status status = parts.drafter->begin(sequence.id, parent); !status.ok()) {
    return with_context("drafter " + in_quotes(parts.drafter_name), status);
  }
  sequence.in_drafter = true;
  sequence.shows_prompt = !parts.hidden_drawn_only;
  if (sequence.shows_prompt && parts.prompt_states != nullptr) {
    sequence.shows_prompt =
        context.contracts.drafter->wants_prompt(*parts.prompt_states, sequence.id);
  }
  return {};
}

Status begin_kv(EngineContext& context, Sequence& sequence, const Sequence* parent,
                uint32_t parent_tokens) {
  PluginCall call(*context.parts.clock, context.times.kv_cache_ns);
  const RequestState& state = *sequence.request;
  KvSequence begin;
  begin.seq = sequence.id;
  begin.key.salt = state.request.cache_salt;
  begin.key.adapter = state.adapter;
  // A salt of its own: nobody else's blocks are found.
  if (sequence.answer->traits.own_kv) begin.key.salt ^= state.id * 0x9e3779b97f4a7c15u;
  begin.limit_tokens = state.limit_tokens;
  if (parent != nullptr) {
    begin.parent = parent->id;
    begin.parent_tokens = parent_tokens;
  }
  Status status = context.parts.kv_cache->begin(begin);
  if (!status.ok())
    return with_context("kv_cache " + in_quotes(context.parts.kv_cache_name), status);
  sequence.in_kv_cache = true;
  return {};
}

void announce(EngineContext& context, Sequence& sequence) {
  sequence.in_scheduler = true;
  KeepFloatingPointState keep;
  const EngineParts& parts = context.parts;
  Status status = parts.scheduler->on_event(event_of(EventKind::arrived, sequence, 0));
  if (status.ok()) return;
  context.fail_request(*sequence.request, plugin_fault("scheduler", parts.scheduler_name,
                                                       "refused a request", status));
}

Status introduce_fork(EngineContext& context, Sequence& child, const Sequence& parent) {
  child.grammar = parent.grammar;
  return introduce(context, child, parent.id);
}

void place_fork(EngineContext& context, Sequence& child, const Sequence& parent, uint32_t tokens) {
  Status status = begin_fork(context, child, parent, tokens);
  if (!status.ok()) return context.fail_request(*child.request, message_of(status));
  announce(context, child);
}

void fork_anew(EngineContext& context, Sequence& child, const Sequence& parent, uint32_t tokens) {
  Status status = context.end_kv(child);
  if (status.ok()) status = begin_fork(context, child, parent, tokens);
  if (!status.ok()) context.fail_request(*child.request, std::string(status.message()));
}

// A prompt is computed: from here on its request is as many sequences as it has samples. All draw
// their first token from the same row, each with its own key.
void fork_samples(EngineContext& context, Step& step) {
  const size_t parents = step.shares.size();
  for (size_t i = 0; i < parents; ++i) {
    if (step.shares[i].logits_rows == 0 || step.shares[i].drafts > 0) continue;
    Sequence& parent = *step.shares[i].sequence;
    RequestState& request = *parent.request;
    while (request.forked_samples < request.request.samples &&
           parent.state != SequenceState::ended) {
      Sequence& child =
          context.table.add(request, request.forked_samples++, parent.record.arrival_ns);
      child.answer = std::make_unique<TokenAnswer>(context, child);
      if (Status status = introduce_fork(context, child, parent); !status.ok()) {
        context.fail_request(request, message_of(status));
        break;
      }
      Share share = step.shares[i];
      share.sequence = &child;
      share.parent = &parent;
      step.shares.push_back(share);
    }
  }
}

}  // namespace tenon
