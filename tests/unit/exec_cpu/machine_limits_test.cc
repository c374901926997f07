#include "core/exec/cpu/limits/machine_limits.h"

#include <gtest/gtest.h>

#include "core/base/machine/cpu_features.h"

namespace tenon {
namespace {

TEST(MachineLimits, every_instruction_set_of_this_machine_has_all_its_figures) {
  for (CpuFeatures isa : {kCpuPortable, kCpuAvx2, kCpuAvxVnni, kCpuAvx512, kCpuAvx512Vnni,
                          kCpuAvx512Bf16, kCpuNeon, kCpuNeonDotprod, kCpuNeonI8mm, kCpuNeonBf16}) {
    if (!detect_cpu_features().has_all(isa)) continue;
    const MachineLimits limits = measure_machine_limits(isa, 2, 0.02);
    EXPECT_GT(limits.read_gbps, 0) << cpu_isa_name(isa);
    EXPECT_GT(limits.fma_flops, 1e6) << cpu_isa_name(isa);
    EXPECT_GT(limits.int8_ops, 1e6) << cpu_isa_name(isa);
    EXPECT_GT(limits.barrier_ns, 0) << cpu_isa_name(isa);
    EXPECT_EQ(limits.bf16_flops > 0, isa.has(CpuFeature::avx512_bf16) || isa.has(CpuFeature::bf16))
        << cpu_isa_name(isa);
  }
}

TEST(MachineLimits, one_thread_meets_nobody) {
  EXPECT_EQ(measure_machine_limits(kCpuPortable, 1, 0.01).barrier_ns, 0);
}

TEST(MachineLimits, reading_again_has_a_figure_for_each_size) {
  const std::vector<double> rates =
      measure_rereading(kCpuPortable, 2, {uint64_t{1} << 20, 64, uint64_t{1} << 50}, 0.01);
  ASSERT_EQ(rates.size(), 3u);
  EXPECT_GT(rates[0], 0);
  EXPECT_EQ(rates[1], 0);  // no whole line for each
  EXPECT_EQ(rates[2], 0);  // no such memory
}

}  // namespace
}  // namespace tenon
