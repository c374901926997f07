// Of another build than the program; loading it would end the test.
#undef TENON_EXECUTOR_STAMP
#define TENON_EXECUTOR_STAMP "0123456789abcdef"
#include <cstdlib>

#include "core/exec/executor_library.h"

namespace {

[[gnu::constructor]] void run_too_early() {
  std::abort();
}

tenon::Result<std::unique_ptr<tenon::Executor>> make(const tenon::HostFacts&) {
  return tenon::internal("was called");
}

}  // namespace

TENON_EXECUTOR_LIBRARY(&make)
