// An extension of schedulers (kSteadyPlans): which plans a simulation need not ask for.
//
// Who offers it promises this of a plan that was made while nobody waited and that granted each
// running sequence its only token left, no drafts, and kept no rows idle. `plan` would grant the
// same in each step after it, one token to each sequence that still runs, in the same order, until
// somebody arrives or waits, a sequence has more than a token left, or memory is refused. A host
// may then call `pass` in place of `plan`, and leave out that sequences progressed. It tells of
// those that end.
//
// Threads: `pass` is [step].
#pragma once

#include <tenon/scheduler.h>

#include <string_view>

namespace tenon {

// `const SteadyPlans*`
inline constexpr std::string_view kSteadyPlans = "steady_plans/1";
// What a scheduler that promises so offers.
struct SteadyPlans {
  void* self = nullptr;  // first argument of `pass`
  // Takes SchedulerView::last_step, of which `plan` would have learnt.
  void (*pass)(void* self, const StepCost& last_step) noexcept = nullptr;
};

}  // namespace tenon
