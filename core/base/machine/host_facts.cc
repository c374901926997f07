#include "core/base/machine/host_facts.h"

#include <unistd.h>

#include "core/base/machine/cpu_cores.h"
#include "core/base/machine/cpu_features.h"

namespace tenon {

HostFacts host_facts(std::optional<CpuFeatures> isa) {
  HostFacts facts;
  facts.cpu = detect_cpu_features();
  if (isa) facts.cpu = lowered(facts.cpu, *isa);
  facts.slow_bf16_dot = detect_slow_bf16_dot();
  facts.workers = static_cast<uint32_t>(usable_cores().size());
  if (const long l2_bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE); l2_bytes > 0) {
    facts.l2_bytes = static_cast<uint64_t>(l2_bytes);
  }
  return facts;
}

}  // namespace tenon
