#include "core/engine/step/admission.h"

#include <algorithm>

#include "core/engine/answers/answer_kind.h"
#include "core/engine/answers/best_of.h"
#include "core/engine/answers/diffusion/canvas.h"
#include "core/engine/answers/diffusion/diffusion_check.h"
#include "core/engine/answers/permitted.h"
#include "core/engine/requests/adapter_names.h"
#include "core/engine/step/joining.h"

namespace tenon {

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
  state.limit_tokens = limit_of(request);
  state.live_samples = request.samples;
  const Result<uint64_t> adapter = find_adapter(request.adapter, context_.parts.adapters);
  state.adapter = adapter.ok() ? *adapter : 0;  // known: submit has looked
  set_endings(state);
  Sequence& sequence = context_.table.add(state, 0, request.arrival_ns);
  sequence.answer = make_answer(context_, sequence);
  if (request.grammar != nullptr) {
    Result<std::shared_ptr<grammar::Runtime>> runtime =
        context_.grammars.runtime_of(request.grammar);
    if (!runtime.ok()) return context_.fail_request(state, message_of(runtime.status()));
    sequence.grammar =
        FollowedGrammar({*std::move(runtime), state.ending_tokens}, !state.ending_tokens.empty());
  }
  Status status = begin_kv(context_, sequence, nullptr, 0);
  if (status.ok() && request.cache_hit_threshold > 0.0f && !finds_enough(sequence)) {
    return context_.end_request(state, FinishReason::uncached, "");
  }
  if (status.ok()) status = introduce(context_, sequence, kNoSeq);
  if (!status.ok()) return context_.fail_request(state, message_of(status));
  announce(context_, sequence);
}

// What others are computing comes sooner than what this sequence would have to compute. A manager
// that cannot say has nothing.
bool Admission::finds_enough(const Sequence& sequence) {
  const Request& request = sequence.request->request;
  KvMatch found;
  PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
  const std::span<const TokenId> prompt = request.prompt;
  const auto wanted = static_cast<uint32_t>(prompt.size());
  if (!context_.parts.kv_cache->match(sequence.id, prompt, wanted, found).ok()) return false;
  // The last token is always computed.
  const double findable = std::max<double>(static_cast<double>(prompt.size()) - 1.0, 1.0);
  return (found.ready + found.promised) / findable >= double{request.cache_hit_threshold};
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

// A limit counts one token that is never computed.
uint32_t Admission::limit_of(const Request& request) const {
  const auto prompt = static_cast<uint32_t>(request.prompt.size());
  if (context_.parts.mask_token != kNoToken) {
    return prompt + plan_diffusion(request, answer_room(prompt, context_.request_limits())).answer;
  }
  const uint32_t answer = request.pooling != Pooling::none ? 1 : request.max_tokens;
  const uint64_t wanted = answer == 0 ? UINT32_MAX : uint64_t{prompt} + answer;
  return static_cast<uint32_t>(std::min<uint64_t>(wanted, context_.sequence_limit_tokens));
}

}  // namespace tenon
