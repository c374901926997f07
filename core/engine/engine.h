// The engine: takes requests, runs steps, delivers tokens. It owns the order of things; strategies
// come as plugins, bytes and arithmetic belong to the executor.
//
//   submit → inbox → step(): admit · offer · plan · move · draft · assemble · launch · collect ·
//                            sample · resolve · deliver · record
//
// With EngineOptions::plan_ahead, what comes before launch is done for the next step while
// the device computes this one.
//
// step.cc has the order; each phase is an object of its own (planner.h, results.h, …) that takes a
// Step (step.h) and the context that all of them share (context.h). What a sequence is to give, a
// text, a beam or a vector, is its own affair (answers/answer_kind.h).
//
// Faults stay where they belong: a plan that fails runs nothing, a row that fails ends its request,
// a forward pass that fails ends the requests of that step; the engine goes on.
//
// Threads: `submit`, `cancel`, `idle` and `wait_for_work` may be called from any thread; everything
// else from one, the step thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/engine/engine_parts.h"
#include "core/engine/memory/tiering.h"
#include "core/engine/records/observing.h"
#include "core/engine/requests/request_fault.h"
#include "core/engine/step/admission.h"
#include "core/engine/step/context.h"
#include "core/engine/step/drafts/drafting.h"
#include "core/engine/step/forward.h"
#include "core/engine/step/guards/progress_guard.h"
#include "core/engine/step/inbox.h"
#include "core/engine/step/planner.h"
#include "core/engine/step/results.h"
#include "core/engine/step/steady_steps.h"
#include "core/engine/step/step.h"

namespace tenon {

class Engine {
 public:
  explicit Engine(EngineParts parts, EngineOptions options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Checks a request and puts it into the inbox. Errors: the request can never run here
  // (invalid_argument), or the inbox is full (failed). Its sink hears nothing then. [any thread]
  Result<RequestId> submit(Request request);
  // What `submit` would refuse, each with the setting that is to blame. [any thread]
  std::vector<RequestFault> faults_of(const Request& request) const;
  // Ends a request at the next step with `cancelled`; unknown and ended ones are ignored.
  void cancel(RequestId id);  // [any thread]
  // Nothing submitted, waiting or running. [any thread]
  bool idle() const;
  // Waits until a step has something to do, at most `timeout`, and says whether it has. Where a
  // scheduler planned nothing on purpose, that is the time it named, or an arrival. [any thread]
  bool wait_for_work(std::chrono::nanoseconds timeout) const;
  // That time, by EngineParts::clock; 0 where a step has something to do, or none runs. Who moves a
  // VirtualClock moves it there. [any thread]
  int64_t wake_ns() const;

  // One pass over all phases. Faults of plugins end requests, not the engine: an error here means
  // that the engine's own invariants are broken (with check_kv) and it must not be used further.
  Status step();
  // Steps until idle, at most `max_steps` (0 = any number), and waits where the scheduler does.
  // Error: not idle by then.
  Status run_until_idle(uint64_t max_steps = 0);

  const EngineTotals& totals() const { return context_.totals; }
  // The latest fault of a plugin; empty when there was none.
  const std::string& last_fault() const { return context_.last_fault; }
  const EngineParts& parts() const { return context_.parts; }
  // Most tokens, prompt and generated, that one sample can have here.
  uint32_t sequence_limit_tokens() const { return context_.sequence_limit_tokens; }

 private:
  Status step_plain();
  Status step_beside(Step& step);
  Status step_overlapped();
  BatchBuilder builder() const {
    return {context_.parts, context_.options.plan_ahead, context_.asks_tables()};
  }
  void begin(Step& step, Planning planning);
  void prepare(Step& step, Planning planning);
  Step& launch_first();
  bool may_plan_ahead(const Step& step) const;
  void plan_ahead(const Step& step, Step& next);
  bool launch_ahead(const Step& step, Step& next);
  void take_back(Step& step);
  Status record(Step& step);
  // What is wrong with the first token of a request's form. Error: there are no forms here.
  Result<std::optional<RequestFault>> form_fault(const Request& request) const;

  EngineContext context_;
  uint64_t last_id_ = 0;  // of a step
  Inbox inbox_;
  Admission admission_;
  Drafting drafting_;
  Planner planner_;
  Forward forward_;
  Tiering tiering_;
  Results results_;
  SteadySteps steady_steps_;
  ProgressGuard progress_guard_;
  Observing observing_;
  Step steps_[2];           // the second for planning ahead
  Step* flying_ = nullptr;  // launched and not collected
};

}  // namespace tenon
