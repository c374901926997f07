// The oracle under another roof.
#include "core/exec/executor_library.h"
#include "core/exec/ref/ref_executor.h"

namespace {

tenon::Result<std::unique_ptr<tenon::Executor>> make(const tenon::HostFacts&) {
  return tenon::make_ref_executor();
}

}  // namespace

TENON_EXECUTOR_LIBRARY(&make)
