#include "core/base/machine/cpu_features.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(CpuFeatures, every_named_set_is_found_again_by_its_name) {
  for (NamedIsa isa : {NamedIsa::portable, NamedIsa::avx2, NamedIsa::avx512, NamedIsa::avx512_vnni,
                       NamedIsa::avx512_bf16}) {
    const Result<CpuFeatures> parsed = parse_cpu_isa(cpu_isa_name(features_of(isa)));
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(*parsed, features_of(isa));
  }
}

TEST(CpuFeatures, a_named_set_takes_away_and_adds_nothing) {
  const CpuFeatures host = {CpuFeature::avx2, CpuFeature::avx_vnni};
  EXPECT_EQ(lowered(host, kCpuAvx512), kCpuAvx2);
  EXPECT_EQ(lowered(host, kCpuPortable), kCpuPortable);
}

TEST(CpuFeatures, are_named_by_the_largest_set_they_hold) {
  EXPECT_EQ(cpu_isa_name({CpuFeature::avx2, CpuFeature::avx_vnni}), "avx2");
  EXPECT_EQ(cpu_isa_name({CpuFeature::neon}), "portable");
}

TEST(CpuFeatures, an_unknown_name_is_refused_with_the_known_ones) {
  const Result<CpuFeatures> parsed = parse_cpu_isa("avx1024");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().message(),
            "instruction set \"avx1024\" is not known; choose one of \"portable\", \"avx2\", "
            "\"avx512\", \"avx512_vnni\", \"avx512_bf16\"");
}

#if defined(__x86_64__) && defined(__GNUC__)
TEST(CpuFeatures, the_detected_level_agrees_with_the_compilers_own_check) {
  const CpuFeatures isa = detect_cpu_features();
  EXPECT_EQ(isa.has(CpuFeature::avx2),
            __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0);
  if (isa.has(CpuFeature::avx512)) {
    EXPECT_TRUE(__builtin_cpu_supports("avx512f"));
    EXPECT_TRUE(__builtin_cpu_supports("avx512bw"));
  }
  if (isa.has(CpuFeature::avx512_vnni)) {
    EXPECT_TRUE(__builtin_cpu_supports("avx512vnni"));
  }
}
#endif

TEST(CpuFeatures, the_brand_is_text_without_surrounding_blanks) {
  const std::string brand = cpu_brand();
  ASSERT_FALSE(brand.empty());
  EXPECT_NE(brand.front(), ' ');
  EXPECT_NE(brand.back(), ' ');
  EXPECT_EQ(brand.find('\0'), std::string::npos);
}

}  // namespace
}  // namespace tenon
