// An executor for a device that is not there.
#include "core/exec/executor_library.h"

namespace {

tenon::Result<std::unique_ptr<tenon::Executor>> make(const tenon::HostFacts&) {
  return tenon::unsupported("there is no driver for its device; install one");
}

}  // namespace

TENON_EXECUTOR_LIBRARY(&make)
