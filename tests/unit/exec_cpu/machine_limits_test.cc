#include "core/exec/cpu/machine_limits.h"

#include <gtest/gtest.h>

#include "core/base/cpu_features.h"

namespace tenon {
namespace {

TEST(MachineLimits, every_instruction_set_of_this_machine_has_all_its_figures) {
  for (int level = 0; level <= static_cast<int>(detect_cpu_isa()); ++level) {
    const auto isa = static_cast<CpuIsa>(level);
    const MachineLimits limits = measure_machine_limits(isa, 2, 0.02);
    EXPECT_GT(limits.read_gbps, 0) << cpu_isa_name(isa);
    EXPECT_GT(limits.fma_flops, 1e6) << cpu_isa_name(isa);
    EXPECT_GT(limits.int8_ops, 1e6) << cpu_isa_name(isa);
    EXPECT_GT(limits.barrier_ns, 0) << cpu_isa_name(isa);
    EXPECT_EQ(limits.bf16_flops > 0, isa >= CpuIsa::avx512_bf16) << cpu_isa_name(isa);
  }
}

TEST(MachineLimits, one_thread_meets_nobody) {
  EXPECT_EQ(measure_machine_limits(CpuIsa::portable, 1, 0.01).barrier_ns, 0);
}

}  // namespace
}  // namespace tenon
