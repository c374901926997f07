#include "core/engine/engine.h"

#include <algorithm>
#include <string>

#include "core/engine/request_check.h"

namespace tenon {
namespace {

std::string text_of(uint64_t number) {
  return std::to_string(number);
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

Result<RequestId> Engine::submit(Request request) {
  const uint64_t kv_tokens = kv_capacity(parts_.geometry);
  const uint32_t block_tokens =
      parts_.geometry.group_count == 0 ? 1 : parts_.geometry.groups[0].block_tokens;
  TENON_RETURN_IF_ERROR(check_request(request, {.scheduler = parts_.limits,
                                                .vocabulary = parts_.shape->vocabulary,
                                                .sequence_tokens = sequence_limit_,
                                                .kv_tokens = kv_tokens,
                                                .kv_block_tokens = block_tokens}));
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
