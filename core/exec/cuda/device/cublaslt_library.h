// NVIDIA's cuBLASLt, loaded when it is asked for: no library of this program depends on it.
#pragma once

#include <memory>

#include "core/exec/cuda/cublaslt.h"

namespace tenon::cuda {

// For the current device. Error unsupported: this build was made without its header, the library is
// not installed, or it does not start here, with what is missing.
Result<std::shared_ptr<LtLibrary>> load_cublaslt();

}  // namespace tenon::cuda
