// The machine as plugins see it.
#pragma once

#include <tenon/host.h>

#include <optional>

namespace tenon {

// Facts of this machine; `isa` caps the instruction set. `workers` is set by the executor.
HostFacts host_facts(std::optional<CpuFeatures> isa = {});

}  // namespace tenon
