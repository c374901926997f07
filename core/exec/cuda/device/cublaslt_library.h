// NVIDIA's cuBLASLt, loaded when it is asked for: no library of this program depends on it.
#pragma once

#include <memory>

#include "core/exec/cuda/device/cublaslt.h"

namespace tenon::cuda {

// For the current device. Error unsupported: this build was made without its header, the library is
// not installed, or it does not start here, with what is missing.
Result<std::shared_ptr<LtLibrary>> load_cublaslt();

// Whether the library that is installed takes such a product's descriptions and preferences, which
// it checks without a device. For tests. Errors: as load_cublaslt, and what the library reports.
Status describe_to_cublaslt(const LtProduct& product, const LtArrays& arrays);

}  // namespace tenon::cuda
