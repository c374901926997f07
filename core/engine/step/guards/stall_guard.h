// Schedulers that plan nothing: for a while and on purpose, or for ever.
#pragma once

#include <tenon/scheduler.h>

#include <optional>
#include <string>

#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class StallGuard {
 public:
  explicit StallGuard(EngineContext& context) : context_(context) {}

  void begin_plan() { wake_ns_ = 0; }
  // Looks at a plan that is sound, once the step has its shares. Requests fail where plans stay
  // empty for too long.
  void watch(const PlanOut& plan, const Step& step, Planning planning);
  // Of a plan that computes something in any case.
  void got_on() {
    empty_plans_ = 0;
    waiting_since_ns_.reset();
  }
  // Where the latest plan is empty on purpose, when the scheduler is to be asked again: when it
  // wishes, or sooner where something is to be said of it. Else 0.
  int64_t wake_ns() const { return wake_ns_; }

 private:
  void wait_on_purpose(int64_t wish_ns, int64_t now_ns);
  void tell_of_wait(int64_t waited_ns, int64_t left_ns) const;
  void stalled(const std::string& how_long);
  std::string how_many_wait() const;

  EngineContext& context_;
  uint32_t empty_plans_ = 0;                 // in a row, with work at hand
  std::optional<int64_t> waiting_since_ns_;  // where it planned nothing on purpose ever since
  int64_t tell_ns_ = 0;                      // … how long until the next word about it
  int64_t wake_ns_ = 0;
};

}  // namespace tenon
