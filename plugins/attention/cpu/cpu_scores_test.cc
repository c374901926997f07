// What weight entries got (attention_scores/1): against double precision, and to the bit whatever a
// step is made of.
#include "tests/support/attention/attention_rig.h"

namespace tenon {
namespace {

using Sums = std::vector<std::vector<uint64_t>>;

class CpuScores : public testing::TestWithParam<CpuFeatures> {
 protected:
  // The sums of a prompt's rows are those of double precision.
  void expect_accurate(const Shape& shape, uint32_t tokens) {
    Rig rig(shape, GetParam());
    Sums sums(1);
    rig.step_scored({{0, 0, tokens}}, sums, 2);
    std::vector<double> wanted(tokens);
    for (uint32_t token = 0; token < tokens; ++token) {
      const std::vector<double> given = rig.given(0, token);
      for (size_t i = 0; i < given.size(); ++i) wanted[i] += given[i];
    }
    for (uint32_t entry = 0; entry < tokens; ++entry) {
      const double got = static_cast<double>(sums[0][entry]) * 0x1.0p-24;
      ASSERT_NEAR(got, wanted[entry], 1e-5 * shape.query_heads() + 1e-4 * wanted[entry])
          << "entry " << entry << " of " << tokens << " " << dtype_name(shape.dtype) << " head_dim "
          << shape.head_dim;
    }
  }
  Sums of(const Shape& shape, const std::vector<std::vector<Rig::Chunk>>& steps, uint32_t slices,
          uint32_t sequences = 1) {
    Rig rig(shape, GetParam(), sequences, 3);
    Sums sums(sequences);
    for (const auto& chunks : steps) rig.step_scored(chunks, sums, slices);
    return sums;
  }
};
INSTANTIATE_TEST_SUITE_P(Isa, CpuScores, testing::ValuesIn(distinct_isas()),
                         [](const auto& given) { return std::string(cpu_isa_name(given.param)); });

TEST_P(CpuScores, agree_with_double_precision_for_every_type_and_size) {
  for (const DType dtype : kTypes) {
    for (const uint32_t head_dim : {8u, 40u, 80u, 127u, 256u, 512u}) {
      expect_accurate({.head_dim = head_dim, .dtype = dtype}, 35);
    }
    expect_accurate({.kv_heads = 1, .group = 13, .head_dim = 32, .dtype = dtype}, 66);
    expect_accurate({.kv_heads = 1, .group = 1, .head_dim = 8, .dtype = dtype}, 200);
    expect_accurate(latent_shape(72, 64, 5, dtype), 66);
    expect_accurate(latent_shape(200, 136, 3, dtype), 40);
  }
}

TEST_P(CpuScores,
       agree_with_double_precision_where_scores_are_capped_biased_or_compete_with_sinks) {
  for (const DType dtype : {DType::f32, DType::i4}) {
    expect_accurate({.head_dim = 24, .dtype = dtype, .soft_cap = 2.0f}, 100);
    expect_accurate({.head_dim = 24, .dtype = dtype, .slopes = true}, 100);
    expect_accurate({.head_dim = 24, .dtype = dtype, .soft_cap = 3.0f, .slopes = true}, 100);
    expect_accurate({.head_dim = 24, .dtype = dtype, .window_tokens = 40}, 150);
    expect_accurate({.head_dim = 24, .dtype = dtype, .sinks = {-300.0f, 0.5f, 9.0f, 400.0f}}, 100);
  }
}

TEST_P(CpuScores, are_the_same_numbers_however_a_prompt_is_cut_and_shared_out) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    const Shape shape{.kv_heads = 3, .group = 2, .head_dim = 40, .dtype = dtype};
    const Sums whole = of(shape, {{{0, 0, 150}}}, 1);
    EXPECT_EQ(of(shape, {{{0, 0, 150}}}, 3), whole);
    EXPECT_EQ(of(shape, {{{0, 0, 1}}, {{0, 1, 70}}, {{0, 71, 78}}, {{0, 149, 1}}}, 2), whole);
    Shape blocks = shape;
    blocks.block_tokens = 1;
    EXPECT_EQ(of(blocks, {{{0, 0, 100}}, {{0, 100, 50}}}, 2), whole);
    const Sums two = of(shape, {{{1, 0, 30}, {0, 0, 150}}}, 3, 2);
    EXPECT_EQ(two[0], whole[0]);
  }
}

TEST_P(CpuScores, of_a_row_that_is_not_a_number_are_zero) {
  Rig rig({.kv_heads = 1, .group = 1, .soft_cap = NAN}, GetParam());
  Sums sums(1);
  rig.step_scored({{0, 0, 20}}, sums);
  EXPECT_EQ(sums[0], std::vector<uint64_t>(20, 0));
}

}  // namespace
}  // namespace tenon
