// The CPU executor: all workers run the decoder together over packed weights, with the attention
// and linear kernels that plugins bring.
//
// A row's logits are the same bits whatever else is in the batch and however many workers there
// are, as far as the kernels keep that promise.
#pragma once

#include <tenon/host.h>

#include <cstdint>
#include <memory>

#include "core/exec/executor.h"

namespace tenon {

struct CpuExecutorOptions {
  uint32_t threads = 0;  // 0 = one for each core this process may use
  CpuFeatures isa = kCpuPortable;
};

// Starts the workers. Errors: those of WorkerPool::start.
Result<std::unique_ptr<Executor>> make_cpu_executor(const CpuExecutorOptions& options);

}  // namespace tenon
