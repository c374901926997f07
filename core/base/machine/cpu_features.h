// What the processor can do, asked once at start. Plugins never ask: they read HostFacts, which
// `--isa` can lower.
#pragma once

#include <tenon/host.h>
#include <tenon/processors/cpu_sets.h>

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

// What processor and operating system both support (a set of registers that the system does not
// save is not usable).
CpuFeatures detect_cpu_features();

// Whether bf16 dot products are slower than fp32 FMA on widened values. Decided by vendor, without
// timing, so that two runs on one machine never differ: AMD's cores issue them at FMA rate or
// faster, on Intel's a 512-bit one takes as long as several FMAs. Others count as slow.
bool detect_slow_bf16_dot();

// The sets that have a name, those of each kind of processor smallest first: what `--isa` and
// executor.isa choose from. Choosing one takes away whatever is not in it.
enum class NamedIsa : uint8_t {
  portable,
  avx2,
  avx_vnni,
  avx512,
  avx512_vnni,
  avx512_bf16,
  neon,
  neon_dotprod,
  neon_i8mm,
  neon_bf16
};
CpuFeatures features_of(NamedIsa isa);
CpuFeatures lowered(CpuFeatures host, CpuFeatures chosen);
// Error invalid_argument: `chosen` is a set of another kind of processor than the host's (neon on
// x86-64), of which nothing would be left; the message lists the sets of the host's kind.
Status check_chosen_isa(CpuFeatures host, CpuFeatures chosen);

// The name of the largest named set that `features` hold: "avx512_vnni".
std::string_view cpu_isa_name(CpuFeatures features);
// Error invalid_argument: no such name; the message lists the names.
Result<CpuFeatures> parse_cpu_isa(std::string_view name);

// The processor's own description, e.g. for a report; "unknown processor" where it has none.
std::string cpu_brand();

}  // namespace tenon
