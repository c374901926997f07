// The executors `ref` and `cpu`, the latter with two workers, for pipelines that tests compose.
#pragma once

#include <memory>

#include "core/exec/cpu/executor.h"
#include "core/exec/ref/executor.h"
#include "core/pipeline/pipeline.h"

namespace tenon::test {

inline ExecutorFactories host_executors() {
  ExecutorFactories made;
  made["ref"] = [](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
    return make_ref_executor();
  };
  made["cpu"] = [](const HostFacts& host) { return make_cpu_executor({2, host.cpu}); };
  return made;
}

}  // namespace tenon::test
