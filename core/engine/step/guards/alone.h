// One that runs alone. Where sequences take memory from each other and nobody gets on
// (progress_guard.h), one of them – or the beams of one search – has everything to itself until it
// ends: what was accepted fits alone (request_check.h), so it ends. The others wait without memory,
// and no scheduler sees them.
#pragma once

#include <cstdint>

#include "core/engine/step/context.h"

namespace tenon {

// Chooses the first that runs. False: nobody does.
bool let_first_run_alone(EngineContext& context);
// Ends it once that one is over.
void end_running_alone(EngineContext& context);
// Takes the memory of everyone else that is not in flight. `preemptions` grows by how many had any.
// Error: the manager's.
Status release_all_others(EngineContext& context, uint32_t& preemptions);

}  // namespace tenon
