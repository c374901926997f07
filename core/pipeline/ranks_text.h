// What each rank of a pipeline will hold, and what ranks exchange, before any of them is started.
#pragma once

#include <string>

#include "core/pipeline/pipeline.h"

namespace tenon {

// Lines for people; empty where there is one process with one engine. The pipeline is one that was
// made to be shown.
std::string ranks_text(const PlannedMemory& pipeline);

}  // namespace tenon
