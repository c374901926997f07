#include "core/base/machine/cpu_features.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(CpuFeatures, every_named_set_is_found_again_by_its_name) {
  for (NamedIsa isa : {NamedIsa::portable, NamedIsa::avx2, NamedIsa::avx_vnni, NamedIsa::avx512,
                       NamedIsa::avx512_vnni, NamedIsa::avx512_bf16, NamedIsa::neon,
                       NamedIsa::neon_dotprod, NamedIsa::neon_i8mm, NamedIsa::neon_bf16}) {
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
  EXPECT_EQ(cpu_isa_name({CpuFeature::avx2, CpuFeature::amx_int8}), "avx2");
  EXPECT_EQ(cpu_isa_name({CpuFeature::avx2, CpuFeature::avx_vnni}), "avx_vnni");
  EXPECT_EQ(cpu_isa_name({CpuFeature::neon, CpuFeature::bf16}), "neon");
  EXPECT_EQ(cpu_isa_name({CpuFeature::neon, CpuFeature::i8mm}), "neon");
  EXPECT_EQ(cpu_isa_name({CpuFeature::bf16}), "portable");
}

TEST(CpuFeatures, an_unknown_name_is_refused_with_the_known_ones) {
  const Result<CpuFeatures> parsed = parse_cpu_isa("avx1024");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().message(),
            "instruction set \"avx1024\" is not known; choose one of \"portable\", \"avx2\", "
            "\"avx_vnni\", \"avx512\", \"avx512_vnni\", \"avx512_bf16\", \"neon\", "
            "\"neon_dotprod\", \"neon_i8mm\", \"neon_bf16\"");
}

TEST(CpuFeatures, a_set_of_another_kind_of_processor_is_refused_with_those_of_the_hosts_kind) {
  const CpuFeatures arm = {CpuFeature::neon, CpuFeature::dotprod};
  for (const CpuFeatures host : {kCpuPortable, kCpuAvx512}) {
    EXPECT_TRUE(check_chosen_isa(host, kCpuPortable).ok());
    EXPECT_TRUE(check_chosen_isa(host, kCpuAvx512Bf16).ok());
    EXPECT_EQ(check_chosen_isa(host, kCpuNeon).message(),
              "instruction set \"neon\" is another kind of processor's; choose one of "
              "\"portable\", \"avx2\", \"avx_vnni\", \"avx512\", \"avx512_vnni\", "
              "\"avx512_bf16\"");
  }
  EXPECT_TRUE(check_chosen_isa(arm, kCpuPortable).ok());
  EXPECT_TRUE(check_chosen_isa(arm, kCpuNeonI8mm).ok());
  EXPECT_EQ(check_chosen_isa(arm, kCpuAvx2).message(),
            "instruction set \"avx2\" is another kind of processor's; choose one of "
            "\"portable\", \"neon\", \"neon_dotprod\", \"neon_i8mm\", \"neon_bf16\"");
}

#if defined(__aarch64__)
TEST(CpuFeatures, every_aarch64_processor_has_neon) {
  EXPECT_TRUE(detect_cpu_features().has(CpuFeature::neon));
}
#endif

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
