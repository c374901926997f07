#include "core/engine/engine.h"

#include <string>

#include "core/engine/draft_runner.h"
#include "core/engine/request_check.h"

namespace tenon {
namespace {

std::string text_of(uint64_t number) {
  return std::to_string(number);
}

}  // namespace

Engine::Engine(EngineParts parts, EngineOptions options)
    : context_(std::move(parts), std::move(options)),
      inbox_(context_.options.inbox_requests),
      admission_(context_, inbox_),
      beam_groups_(context_, admission_),
      drafting_(context_),
      planner_(context_),
      forward_(context_),
      grammar_masks_(context_),
      sampling_(context_, admission_, beam_groups_),
      finishing_(context_, admission_, drafting_),
      progress_guard_(context_),
      observing_(context_),
      steps_{Step(BatchBuilder(context_.parts, context_.options.plan_ahead)),
             Step(BatchBuilder(context_.parts, context_.options.plan_ahead))} {
  const EngineParts& made_of = context_.parts;
  if (made_of.draft_runner != nullptr) {
    made_of.draft_runner->attach(*made_of.kv_cache, context_.table, *made_of.sampler);
  }
}

Engine::~Engine() {
  const EngineParts& parts = context_.parts;
  if (flying_ != nullptr && !flying_->empty() && flying_->launched.ok()) {
    (void)parts.executor->collect(flying_->id);
  }
  if (parts.draft_runner != nullptr) parts.draft_runner->detach();
  for (Sequence* sequence : context_.table.all()) {
    if (sequence->in_sampler) (void)parts.sampler->end(sequence->id);
    if (sequence->in_drafter) (void)parts.drafter->end(sequence->id);
    if (sequence->in_kv_cache) {
      (void)parts.kv_cache->release(sequence->id, ReleaseHow::end);
    }
  }
}

Result<RequestId> Engine::submit(Request request) {
  const EngineParts& parts = context_.parts;
  TENON_RETURN_IF_ERROR(check_request(request, context_.request_limits()));
  // The vocabulary is laid out here, by whoever is first.
  if (request.grammar != nullptr) {
    auto runtime = context_.grammars.runtime_of(request.grammar);
    if (!runtime.ok()) return runtime.take_status();
  }
  if (request.arrival_ns < 0) request.arrival_ns = parts.clock->now_ns();
  return inbox_.submit(std::move(request));
}

std::vector<RequestFault> Engine::faults_of(const Request& request) const {
  return request_faults(request, context_.request_limits());
}

void Engine::cancel(RequestId id) {
  inbox_.cancel(id);
}
bool Engine::idle() const {
  return inbox_.idle();
}
bool Engine::wait_for_work(std::chrono::nanoseconds timeout) const {
  return inbox_.wait_for_work(timeout, *context_.parts.clock);
}
int64_t Engine::wake_ns() const {
  return inbox_.wake_ns();
}

Status Engine::run_until_idle(uint64_t max_steps) {
  for (uint64_t steps = 0; !idle(); ++steps) {
    if (max_steps != 0 && steps == max_steps) {
      return failed("requests are still running after " + text_of(max_steps) +
                    " steps – allow more, or look at the scheduler");
    }
    // Asked again by then, in case nobody moves the clock.
    (void)wait_for_work(std::chrono::seconds(1));
    TENON_RETURN_IF_ERROR(step());
  }
  return {};
}

}  // namespace tenon
