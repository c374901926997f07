// The driver of the executor `cuda` over CUDA's runtime.
#pragma once

#include <memory>

#include "core/exec/cuda/device/driver.h"

namespace tenon::cuda {

// Of the first device. Errors: unsupported (there is no driver, no device, or an older one than the
// kernels were compiled for), with what is missing.
Result<std::shared_ptr<Driver>> make_runtime_driver();

}  // namespace tenon::cuda
