#include "core/engine/engine.h"

#include <string>

#include "core/engine/answers/permitted.h"
#include "core/engine/requests/request_check.h"
#include "core/engine/step/drafts/draft_runner.h"
#include "core/grammar/matcher.h"

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
      drafting_(context_),
      planner_(context_),
      forward_(context_),
      tiering_(context_, forward_, last_id_),
      results_(context_),
      steady_steps_(context_),
      progress_guard_(context_),
      observing_(context_),
      steps_{Step(builder()), Step(builder())} {
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
  if (request.grammar != nullptr) {
    TENON_ASSIGN_OR_RETURN(const auto fault, form_fault(request));
    if (fault) return invalid_argument(fault->text);
  }
  if (request.arrival_ns < 0) request.arrival_ns = parts.clock->now_ns();
  return inbox_.submit(std::move(request));
}

std::vector<RequestFault> Engine::faults_of(const Request& request) const {
  std::vector<RequestFault> faults = request_faults(request, context_.request_limits());
  if (!faults.empty() || request.grammar == nullptr) return faults;
  const auto fault = form_fault(request);
  if (fault.ok() && *fault) faults.push_back(**fault);
  return faults;
}

// The vocabulary is laid out here, by whoever is first, and the first mask of a grammar is made.
Result<std::optional<RequestFault>> Engine::form_fault(const Request& request) const {
  TENON_ASSIGN_OR_RETURN(const auto runtime, context_.grammars.runtime_of(request.grammar));
  const EngineParts& parts = context_.parts;
  const uint32_t vocabulary = parts.shape->vocabulary;
  std::vector<TokenId> ending = ending_tokens_of(request, parts.eos_tokens);
  const TokenBits not_ending = all_but(ending, vocabulary);
  const TokenBits permitted = permitted_tokens(request.lists, request.prompt, vocabulary);
  grammar::Matcher matcher(runtime, std::move(ending));
  TokenBits form(not_ending.size());
  const EndRules rules{request.min_tokens == 0, not_ending, permitted};
  const auto position = static_cast<uint32_t>(request.prompt.size());
  std::string fault;
  if (Status status = fill_allowed(matcher, rules, form); !status.ok()) {
    fault = message_of(status);
  } else if (is_empty(form)) {
    fault = form_dead_end(matcher, position, form);
  } else {
    return first_token_fault(request, parts.eos_tokens, vocabulary, form);
  }
  return std::optional(RequestFault{"grammar", std::move(fault)});
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
