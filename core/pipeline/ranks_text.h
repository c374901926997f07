// What each rank of a pipeline will hold, and what ranks exchange, before any of them is started.
#pragma once

#include <string>

#include "core/pipeline/pipeline.h"

namespace tenon {

// Lines for people; empty where there is one process. Bytes of weights are those of the checkpoint,
// which kernels pack into about as many. Errors: those of open_model.
Result<std::string> ranks_text(const PlannedMemory& pipeline);

}  // namespace tenon
