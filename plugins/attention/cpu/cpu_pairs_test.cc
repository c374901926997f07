// Products of pairs of bf16 (products = "bf16"): what rounding costs against double precision, the
// same bits however steps are made, and where they are refused.
#include "tests/support/attention/attention_products.h"

namespace tenon {
namespace {

class CpuPairs : public testing::Test {
 protected:
  void SetUp() override {
    if (!detect_cpu_features().has_all(kCpuAvx512Bf16)) GTEST_SKIP() << "no AVX-512 BF16";
  }
  static Shape latent(uint32_t dim, uint32_t v_dim, uint32_t heads) {
    Shape shape = latent_shape(dim, v_dim, heads, DType::bf16);
    shape.pairs = true;
    return shape;
  }
  static Shape heads(uint32_t kv_heads, uint32_t group, uint32_t head_dim) {
    return {.kv_heads = kv_heads,
            .group = group,
            .head_dim = head_dim,
            .dtype = DType::bf16,
            .pairs = true};
  }
  // Queries and weights have 8 bits: each errs by 2^-9 at most, and errors of many cancel out.
  static void expect_near(const Shape& shape, uint32_t tokens) {
    expect_near_double(shape, tokens, kCpuAvx512Bf16, 6e-3);
  }
};

TEST_F(CpuPairs, are_near_double_precision_over_latent_rows) {
  expect_near(latent(576, 512, 16), 100);
  expect_near(latent(576, 512, 128), 70);
  expect_near(latent(288, 256, 40), 65);
  expect_near(latent(28, 20, 3), 600);
  expect_near(latent(29, 21, 13), 70);
  expect_near(latent(200, 136, 130), 3);
  expect_near(latent(1024, 1024, 1), 65);
  for (uint32_t group = 1; group <= 17; ++group) expect_near(latent(72, 64, group), 70);
}

TEST_F(CpuPairs, are_near_double_precision_over_heads_of_every_size) {
  for (uint32_t head_dim :
       {1u, 8u, 16u, 31u, 32u, 33u, 64u, 80u, 96u, 127u, 128u, 256u, 257u, 512u}) {
    expect_near(heads(2, 2, head_dim), 70);
  }
  for (uint32_t group : {1u, 3u, 4u, 5u, 12u, 13u, 100u}) expect_near(heads(1, group, 32), 130);
  Shape apart = heads(2, 3, 64);
  apart.v_dim = 33;
  expect_near(apart, 100);
}

TEST_F(CpuPairs, are_near_double_precision_at_every_end_of_a_window_or_tile) {
  for (uint32_t window : {1u, 2u, 3u, 40u, 63u, 64u, 65u, 100u}) {
    for (uint32_t tokens : {1u, 2u, 63u, 64u, 65u, 513u}) {
      Shape shape = latent(72, 64, 5);
      shape.window_tokens = window;
      shape.block_tokens = 1 + tokens % 7;
      expect_near(shape, tokens);
    }
  }
}

TEST_F(CpuPairs, know_soft_caps_slopes_and_sinks) {
  Shape capped = latent(72, 64, 5);
  capped.soft_cap = 20.0f;
  expect_near(capped, 100);
  Shape sloped = heads(2, 4, 24);
  sloped.slopes = true;
  expect_near(sloped, 200);
  Shape sunk = heads(2, 2, 24);
  sunk.sinks = {-300.0f, 0.5f, 9.0f, 400.0f};
  expect_near(sunk, 100);
}

// A softmax adds up to one, as what its weights were rounded to is what they are divided by.
TEST_F(CpuPairs, of_values_that_are_all_alike_give_them_back) {
  for (const Shape& shape : {heads(1, 3, 64), heads(1, 3, 37)}) {
    std::vector<float> row(shape.head_dim);
    for (size_t d = 0; d < row.size(); ++d) row[d] = static_cast<float>(d) - 20.0f;
    Rig rig(shape, kCpuAvx512Bf16);
    rig.give_all(row);
    const auto out = rig.step({{0, 0, 600}});
    for (size_t i = 0; i < out.size(); ++i) {
      const float want = row[i % row.size()];
      ASSERT_NEAR(out[i], want, 2e-6 * std::fabs(want)) << i;
    }
  }
}

TEST_F(CpuPairs, give_a_row_the_same_bits_however_the_prompt_is_cut_or_branches) {
  expect_same_bits_for_chunks(latent(160, 128, 16), kCpuAvx512Bf16);
  expect_same_bits_for_chunks(latent(28, 20, 3), kCpuAvx512Bf16);
  Shape windowed = latent(72, 64, 5);
  windowed.window_tokens = 91;
  expect_same_bits_for_chunks(windowed, kCpuAvx512Bf16);
  expect_same_bits_for_chunks(heads(2, 3, 64), kCpuAvx512Bf16);
  for (uint32_t before : {0u, 59u, 64u, 507u, 510u}) {
    expect_same_bits_for_paths(latent(90, 70, 16), before, kCpuAvx512Bf16);
    expect_same_bits_for_paths(latent(96, 64, 100), before, kCpuAvx512Bf16);
    expect_same_bits_for_paths(heads(3, 1, 24), before, kCpuAvx512Bf16);
  }
}

TEST_F(CpuPairs, give_a_row_the_same_bits_for_any_blocks_slices_and_neighbours) {
  for (const Shape& shape : {latent(96, 64, 16), latent(44, 30, 5), heads(3, 2, 32)}) {
    expect_same_bits_for_blocks(shape, kCpuAvx512Bf16);
  }
}

TEST_F(CpuPairs, do_not_read_the_entry_beside_the_last_one_seen) {
  expect_poison_unseen(heads(1, 3, 32), 100, kCpuAvx512Bf16);
}

TEST_F(CpuPairs, tell_what_weight_entries_got) {
  expect_all_weight_told(latent(72, 64, 5), kCpuAvx512Bf16);
}

TEST_F(CpuPairs, have_numerics_of_their_own) {
  Shape shape = latent(72, 64, 5);
  EXPECT_EQ(Rig(shape, kCpuAvx512Bf16).kernel().numerics(), "cpu/avx512_bf16");
  const auto pairs = Rig(shape, kCpuAvx512Bf16).step({{0, 0, 70}});
  shape.pairs = false;
  EXPECT_EQ(Rig(shape, kCpuAvx512Bf16).kernel().numerics(), "cpu/avx512");
  EXPECT_FALSE(
      same_bits(pairs.data(), Rig(shape, kCpuAvx512Bf16).step({{0, 0, 70}}).data(), pairs.size()));
}

TEST(CpuPairsRefused, where_the_processor_or_the_cache_lacks_what_they_need) {
  expect_refusals({.option = 1,
                   .name = "bf16",
                   .isa = kCpuAvx512Bf16,
                   .isa_name = "avx512_bf16",
                   .without = kCpuAvx512Vnni,
                   .refused = {DType::f32, DType::f16, DType::i8, DType::i4},
                   .taken = "bf16"},
                  latent_shape(72, 64, 5, DType::bf16));
}

}  // namespace
}  // namespace tenon
