// Whether a scheduler may grant a sequence what it does.
#pragma once

#include <tenon/scheduler.h>

#include "core/engine/requests/sequence.h"

namespace tenon {

// Error: says which promise of the scheduler's the grant breaks. The sequence is the one it names.
Status check_grant(const Grant& grant, const Sequence& sequence);

}  // namespace tenon
