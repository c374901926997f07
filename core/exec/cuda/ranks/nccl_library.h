// NVIDIA's NCCL, loaded under its major version. Nothing of it is needed to build Tenon, so its
// binary interface is known here: that of NCCL 2, which has not changed since 2.2.
#pragma once

#include <memory>
#include <string>

#include "core/exec/cuda/ranks/nccl.h"

namespace tenon::cuda {

inline constexpr const char* kNcclFile = "libnccl.so.2";

Result<std::shared_ptr<NcclLibrary>> load_nccl(const std::string& file = kNcclFile);

}  // namespace tenon::cuda
