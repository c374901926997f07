#include "core/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tenon {
namespace {

// Far beyond any use; they bound what one request can make the engine allocate.
constexpr uint32_t kMaxSamples = 1024;
constexpr uint32_t kMaxLogprobs = 1024;

std::string text_of(uint64_t number) {
  return std::to_string(number);
}

Status check_sampling(const SamplingParams& sampling) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0.0f) {
    return invalid_argument("temperature is " + std::to_string(sampling.temperature) +
                            " – it must be a number from 0 (greedy) up");
  }
  if (!(sampling.top_p > 0.0f && sampling.top_p <= 1.0f)) {
    return invalid_argument("top_p is " + std::to_string(sampling.top_p) +
                            " – it must be above 0 and at most 1 (1 keeps every token)");
  }
  if (sampling.logprobs > kMaxLogprobs) {
    return invalid_argument("logprobs is " + text_of(sampling.logprobs) + " – at most " +
                            text_of(kMaxLogprobs) + " are reported at a position");
  }
  return {};
}

Status check_token_ids(std::span<const TokenId> ids, std::string_view what, uint32_t vocabulary) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<uint32_t>(ids[i]) < vocabulary) continue;
    return invalid_argument(std::string(what) + " " + text_of(i) + " has id " +
                            std::to_string(ids[i]) + " – the vocabulary has ids 0 to " +
                            text_of(vocabulary - 1) +
                            " – encode the text with this model's own tokenizer");
  }
  return {};
}

// Slots of the first group, which every token of a sequence needs.
uint64_t kv_capacity(const KvGeometry& geometry) {
  if (geometry.group_count == 0) return UINT32_MAX;
  return uint64_t{geometry.groups[0].blocks} * geometry.groups[0].block_tokens;
}

}  // namespace

Engine::Engine(EngineParts parts, EngineOptions options)
    : parts_(std::move(parts)),
      options_(std::move(options)),
      inbox_(options_.inbox_requests),
      ledger_(*parts_.kv_cache, table_, *parts_.clock),
      batch_(parts_.limits, parts_.shape->group_count) {
  // The last token of a sequence is never computed and needs no slot.
  const uint64_t fits = kv_capacity(parts_.geometry) + 1;
  sequence_limit_ = static_cast<uint32_t>(std::min<uint64_t>(parts_.limits.context_tokens, fits));
  if (parts_.draft_runner != nullptr) {
    parts_.draft_runner->attach(*parts_.kv_cache, table_, *parts_.sampler);
  }
}

Engine::~Engine() {
  if (parts_.draft_runner != nullptr) parts_.draft_runner->detach();
  for (Sequence* sequence : table_.all()) {
    if (sequence->in_sampler) parts_.sampler->end(sequence->id);
    if (sequence->in_drafter) parts_.drafter->end(sequence->id);
    if (sequence->in_kv_cache) {
      (void)parts_.kv_cache->release(sequence->id, KVCacheManager::Release::end);
    }
  }
}

Status Engine::check_request(const Request& request) const {
  const uint64_t prompt = request.prompt.size();
  if (prompt == 0) {
    return invalid_argument(
        "the prompt has no tokens – at least one is needed – give a text, or the model's "
        "beginning-of-text token");
  }
  if (prompt + 1 > parts_.limits.context_tokens) {
    return invalid_argument("the prompt has " + text_of(prompt) + " tokens – the context has " +
                            text_of(parts_.limits.context_tokens) +
                            " and one must be left for the answer – shorten the prompt or raise "
                            "limits.context_tokens");
  }
  const uint64_t wanted =
      std::min<uint64_t>(prompt + std::max(request.max_tokens, 1u), parts_.limits.context_tokens);
  if (wanted > sequence_limit_) {
    return invalid_argument("prompt and answer take " + text_of(wanted) +
                            " tokens – the KV cache has room for " + text_of(sequence_limit_) +
                            " of one sequence – lower max_tokens or raise kv_cache.memory");
  }
  if (request.samples == 0 || request.samples > kMaxSamples) {
    return invalid_argument(text_of(request.samples) + " samples were asked for – 1 to " +
                            text_of(kMaxSamples) + " are possible");
  }
  if (request.max_tokens != 0 && request.min_tokens > request.max_tokens) {
    return invalid_argument("min_tokens is " + text_of(request.min_tokens) +
                            ", more than max_tokens, " + text_of(request.max_tokens) +
                            " – lower it");
  }
  TENON_RETURN_IF_ERROR(check_sampling(request.sampling));
  TENON_RETURN_IF_ERROR(
      check_token_ids(request.stop_tokens, "stop token", parts_.shape->vocabulary));
  return check_token_ids(request.prompt, "prompt token", parts_.shape->vocabulary);
}

Result<RequestId> Engine::submit(Request request) {
  TENON_RETURN_IF_ERROR(check_request(request));
  if (request.arrival_ns < 0) request.arrival_ns = parts_.clock->now_ns();
  return inbox_.submit(std::move(request));
}

void Engine::cancel(RequestId id) {
  inbox_.cancel(id);
}
bool Engine::idle() const {
  return inbox_.idle();
}
bool Engine::wait_for_work(std::chrono::nanoseconds timeout) const {
  return inbox_.wait_for_work(timeout);
}

Status Engine::run_until_idle(uint64_t max_steps) {
  for (uint64_t steps = 0; !idle(); ++steps) {
    if (max_steps != 0 && steps == max_steps) {
      return failed("requests are still running after " + text_of(max_steps) +
                    " steps – allow more, or look at the scheduler");
    }
    TENON_RETURN_IF_ERROR(step());
  }
  return {};
}

}  // namespace tenon
