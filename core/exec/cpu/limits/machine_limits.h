// What this machine can do at most, measured: the denominators of every "fraction of the limit".
//
// The figures belong to the moment: frequency, neighbours and memory placement change them, so they
// are measured in the same run as what is compared with them.
#pragma once

#include <tenon/host.h>

#include <cstdint>
#include <vector>

namespace tenon {

// All threads together.
struct MachineLimits {
  double read_gbps = 0;  // streaming reads of a buffer far larger than a core's caches, 1e9 bytes/s
  // The same, median over the rounds instead of the best one: what to hold a median against.
  double read_median_gbps = 0;
  double fma_flops = 0;   // fp32 multiply and add, operations/s
  double bf16_flops = 0;  // bf16 dot products into fp32; 0 where the set has none
  double int8_ops = 0;    // 8-bit dot products into 32 bits, the set's best instruction
  double barrier_ns = 0;  // one meeting of all threads, spinning; 0 for one thread
  // Part of the time that the measuring threads, which never wait, were given a processor. Well
  // below 1 others were busy, and the figures are not those of the machine.
  double processor_share = 1;
};

// Takes about `seconds_budget` seconds (at least some tens of milliseconds) and half a GiB of
// memory, less where that much is not free. Runs threads of its own, spread over the processors
// that this process may use. `isa` must be one that the processor has.
MachineLimits measure_machine_limits(CpuFeatures isa, uint32_t threads, double seconds_budget);

// 1e9 bytes/s of all threads together that read so many bytes again and again, each its own part:
// what caches make of it. One figure for each of `bytes`, the median over rounds; 0 where so much
// memory cannot be had. Takes `seconds_each` for each.
std::vector<double> measure_rereading(CpuFeatures isa, uint32_t threads,
                                      const std::vector<uint64_t>& bytes, double seconds_each);

}  // namespace tenon
