// The oracle under another roof.
#include "core/base/log.h"
#include "core/exec/executor_library.h"
#include "core/exec/ref/executor.h"

namespace {

tenon::Result<std::unique_ptr<tenon::Executor>> make(const tenon::HostFacts&) {
  tenon::log(tenon::LogLevel::info, "toy", "made");
  return tenon::make_ref_executor();
}

}  // namespace

TENON_EXECUTOR_LIBRARY(&make)
