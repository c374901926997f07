// Which kernels are launched with how many threads and how much shared memory:
//
//   tenon_cuda_launches     lines of: threads shared_bytes address
//
// Addresses are those of kernels, less that of tenon_cuda_anchor: a table of symbols gives names to
// them (gates.py).
#include <tenon/cuda/emulator.h>

#include <cstdint>
#include <cstdio>

#include "bench/cuda/every_launch.h"

extern "C" void tenon_cuda_anchor() {}

int main() {
  using tenon::cuda::Emulator;
  Emulator machine;
  machine.record_launches(Emulator::Run::never);
  if (!tenon::cuda::bench::launch_every_kernel()) return 1;
  const auto anchor = reinterpret_cast<intptr_t>(&tenon_cuda_anchor);
  for (const tenon::cuda::LaunchRecord& record : machine.records()) {
    std::printf("%u %u %lld\n", record.block.x * record.block.y * record.block.z,
                record.shared_bytes,
                static_cast<long long>(reinterpret_cast<intptr_t>(record.kernel) - anchor));
  }
  return 0;
}
