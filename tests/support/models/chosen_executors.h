// The executors `ref` and `cpu` (host_executors.h) with as many workers as TENON_TEST_WORKERS says:
// one is faster on a busy machine, where workers wait for each other.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "tests/support/models/host_executors.h"

namespace tenon::test {

inline ExecutorFactories chosen_executors() {
  ExecutorFactories made = host_executors();
  const char* said = std::getenv("TENON_TEST_WORKERS");
  if (said == nullptr) return made;
  const auto workers = static_cast<uint32_t>(std::strtoul(said, nullptr, 10));
  made["cpu"] = [workers](const HostFacts& host) { return make_cpu_executor({workers, host.cpu}); };
  return made;
}

}  // namespace tenon::test
