// The executor `cuda`: one device, one queue. It brings its own kernels (kernels/launches.h), runs
// decoders of attention, recurrences and MLPs, and keeps K and V in f32, bf16, i8 or i4, and states
// in f32. What a model has besides that is refused at `load`, with the layer's number.
//
// One of several ranks has a device of its own and some columns of each matrix
// (ranks/rank_gather.h).
//
// cuBLASLt may be its guest, and make the products of matrices that are not packed.
//
// `apply`, `stage` and `launch` put work on the queue and return; `collect` waits for its step. Two
// steps may be in flight, and copies are made from and to pinned memory.
#pragma once

#include <functional>
#include <memory>

#include "core/exec/cuda/device/cublaslt.h"
#include "core/exec/cuda/device/driver.h"
#include "core/exec/cuda/ranks/nccl.h"
#include "core/exec/executor.h"

namespace tenon::cuda {

// Loads cuBLASLt. Error unsupported: what is missing for it.
using LtLoader = std::function<Result<std::shared_ptr<LtLibrary>>()>;

// Without a loader it has no guests, or is no one of several ranks.
std::unique_ptr<Executor> make_cuda_executor(std::shared_ptr<Driver> driver,
                                             LtLoader load_cublaslt = {},
                                             NcclLoader load_nccl = {});

}  // namespace tenon::cuda
