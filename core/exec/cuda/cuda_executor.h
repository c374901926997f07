// The executor `cuda`: one device, one queue. It brings its own kernels (kernels/launches.h), runs
// decoders of attention and MLPs, and keeps K and V in f32 or bf16. What a model has beside that is
// refused at `load`, with the layer's number.
//
// `apply`, `stage` and `launch` put work on the queue and return; `collect` waits for its step. Two
// steps may be in flight, and copies are made from and to pinned memory.
#pragma once

#include <memory>

#include "core/exec/cuda/driver.h"
#include "core/exec/executor.h"

namespace tenon::cuda {

std::unique_ptr<Executor> make_cuda_executor(std::shared_ptr<Driver> driver);

}  // namespace tenon::cuda
