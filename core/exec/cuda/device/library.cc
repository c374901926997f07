// libtenon-executor-cuda.so.
#include "core/exec/cuda/device/cublaslt_library.h"
#include "core/exec/cuda/device/runtime_driver.h"
#include "core/exec/cuda/executor.h"
#include "core/exec/cuda/ranks/nccl_library.h"
#include "core/exec/executor_library.h"

namespace {

tenon::Result<std::unique_ptr<tenon::Executor>> make(const tenon::HostFacts&) {
  TENON_ASSIGN_OR_RETURN(auto driver, tenon::cuda::make_runtime_driver());
  return tenon::cuda::make_cuda_executor(std::move(driver), &tenon::cuda::load_cublaslt,
                                         [] { return tenon::cuda::load_nccl(); });
}

}  // namespace

TENON_EXECUTOR_LIBRARY(&make)
