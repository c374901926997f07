// Extension of the host (HostServices::extension) for drafters that choose how many tokens to
// propose: what steps of so many rows took, measured when the pipeline was made.
#pragma once

#include <tenon/scheduler.h>

#include <span>
#include <string_view>

namespace tenon {

// `const std::span<const StepCost>*`: rows rise, and all are sampled from. It is filled once the
// plugin is made, before the first step; empty where nothing could be measured: the clock stands
// still, several processes run the model, or it has recurrent layers. It lives as long as the
// plugin.
inline constexpr std::string_view kStepCosts = "step_costs/1";

}  // namespace tenon
