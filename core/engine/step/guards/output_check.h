// Whether an executor has given what a step wanted.
#pragma once

#include <tenon/model.h>

#include "core/engine/step/step.h"

namespace tenon {

// Error: the output is of another step, or has not the logits or hidden states that the batch
// names.
Status check_output(const Step& step, const ModelShape& shape);

}  // namespace tenon
