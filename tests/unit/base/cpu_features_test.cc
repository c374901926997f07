#include "core/base/cpu_features.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(CpuFeatures, every_instruction_set_is_found_again_by_its_name) {
  for (int level = 0; level <= static_cast<int>(CpuIsa::avx512_bf16); ++level) {
    const auto isa = static_cast<CpuIsa>(level);
    const Result<CpuIsa> parsed = parse_cpu_isa(cpu_isa_name(isa));
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(*parsed, isa);
  }
}

TEST(CpuFeatures, an_unknown_name_is_refused_with_the_known_ones) {
  const Result<CpuIsa> parsed = parse_cpu_isa("avx1024");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().message(),
            "instruction set \"avx1024\" is not known; choose one of \"portable\", \"avx2\", "
            "\"avx512\", \"avx512_vnni\", \"avx512_bf16\"");
}

#if defined(__x86_64__) && defined(__GNUC__)
TEST(CpuFeatures, the_detected_level_agrees_with_the_compilers_own_check) {
  const CpuIsa isa = detect_cpu_isa();
  EXPECT_EQ(isa >= CpuIsa::avx2,
            __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0);
  if (isa >= CpuIsa::avx512) {
    EXPECT_TRUE(__builtin_cpu_supports("avx512f"));
    EXPECT_TRUE(__builtin_cpu_supports("avx512bw"));
  }
  if (isa >= CpuIsa::avx512_vnni) {
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
