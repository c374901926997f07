// The choice between kernels that were compiled for several instruction sets.
#pragma once

#include <tenon/host.h>
#include <tenon/processors/cpu_sets.h>

#include <initializer_list>

namespace tenon::sdk {

// The kernels for processors with these features. `kernels` is null where this build has none.
template <typename KernelSet>
struct IsaKernels {
  CpuFeatures features;
  const KernelSet* kernels;
};

// The last of `sets`, best last, that the host can run. The first one must run everywhere.
template <typename KernelSet>
const KernelSet& best_kernels(const HostFacts& host,
                              std::initializer_list<IsaKernels<KernelSet>> sets) noexcept {
  const KernelSet* best = sets.begin()->kernels;
  for (const IsaKernels<KernelSet>& set : sets) {
    if (set.kernels != nullptr && host.cpu.has_all(set.features)) best = set.kernels;
  }
  return *best;
}

// TENON_X86(&kAvx2Kernels): a set that exists on x86-64 alone.
#if defined(__x86_64__)
#define TENON_X86(kernels) (kernels)
#else
#define TENON_X86(kernels) nullptr
#endif
// TENON_ARM(&kNeonKernels): a set that exists on AArch64 alone.
#if defined(__aarch64__)
#define TENON_ARM(kernels) (kernels)
#else
#define TENON_ARM(kernels) nullptr
#endif

// Whether the processor itself fetches what one row reads front to back, so that additional
// prefetches only take bandwidth from it: Zen 4 (docs/experiments/008-linear-kernels.md).
inline bool fetches_by_itself([[maybe_unused]] const HostFacts& host) noexcept {
#if defined(__x86_64__)
  return host.cpu.has(CpuFeature::avx512_vnni) && __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

// How many bytes ahead of its reads a row should prefetch lines on processors that fetch by
// themselves, but too late for loops that compute much between two lines: Zen 5. 0: none.
inline uint32_t row_lead_bytes(const HostFacts& host) noexcept {
  constexpr uint32_t kLead = 6144;
  return fetches_by_itself(host) && host.cpu.has(CpuFeature::avx_vnni) ? kLead : 0;
}

}  // namespace tenon::sdk
