// The oracle: the decoder in plain f32, one value at a time, in the order of the textbook. Slow on
// purpose; every fast executor is held against it.
//
// Weights are read from the checkpoint's views (f32, f16, bf16) row by row; K and V are kept in
// f32; sums are taken in double. It uses no kernels and one thread.
#pragma once

#include <memory>

#include "core/exec/executor.h"
#include "core/exec/ref/math.h"

namespace tenon {

// `multiply` makes the products by the weights; it may be called by the thread that calls the
// executor alone.
std::unique_ptr<Executor> make_ref_executor(ref::Multiply multiply = ref::multiply);

}  // namespace tenon
