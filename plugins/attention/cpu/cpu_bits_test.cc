// A row's bits: the same however a prompt is cut, whatever else is in the batch, and along every
// path of a tree.
#include <numeric>

#include "tests/support/attention/attention_bits.h"

namespace tenon {
namespace {

class CpuBits : public testing::TestWithParam<CpuFeatures> {
 protected:
  static void expect_same_bits_for_chunks(const Shape& shape) {
    tenon::expect_same_bits_for_chunks(shape, GetParam());
  }
  static void expect_same_bits_for_paths(const Shape& shape, uint32_t before) {
    tenon::expect_same_bits_for_paths(shape, before, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Isa, CpuBits, testing::ValuesIn(distinct_isas()),
                         [](const auto& given) { return std::string(cpu_isa_name(given.param)); });

TEST_P(CpuBits, a_latent_row_has_the_same_bits_however_the_prompt_is_cut_or_branches) {
  for (DType dtype : kTypes) {
    expect_same_bits_for_chunks(latent_shape(28, 20, 3, dtype));
    expect_same_bits_for_paths(latent_shape(90, 70, 16, dtype), 507);
    expect_same_bits_for_paths(latent_shape(29, 21, 100, dtype), 70);
  }
  expect_same_bits_for_chunks(latent_shape(160, 128, 16, DType::bf16));
}

TEST_P(CpuBits, a_latent_row_has_the_same_bits_for_any_blocks_and_slices) {
  constexpr uint32_t kTokens = 1100;
  for (DType dtype : kTypes) {
    const Shape shape = latent_shape(44, 30, 5, dtype);
    Rig first(shape, GetParam(), 2, 1);
    first.step({{1, 0, kTokens}});
    const auto expected = first.step({{1, kTokens, 1}});
    for (uint32_t block : {1u, 16u, 100u, 2048u}) {
      Shape other = shape;
      other.block_tokens = block;
      Rig rig(other, GetParam(), 2, 1 + block % 7);
      std::reverse(rig.table(1).begin(), rig.table(1).end());
      rig.step({{1, 0, kTokens}}, 2);
      const auto out = rig.step({{0, 0, 5}, {1, kTokens, 1}}, 3);
      EXPECT_TRUE(same_bits(&out[5 * rig.row_floats()], expected.data(), expected.size()))
          << "block " << block << " " << dtype_name(dtype);
    }
  }
}

TEST_P(CpuBits, rows_with_slopes_have_the_same_bits_in_chunks_and_in_trees) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i4}) {
    const Shape shape{.kv_heads = 2, .group = 4, .head_dim = 24, .dtype = dtype, .slopes = true};
    expect_same_bits_for_chunks(shape);
    for (const uint32_t before : {0u, 59u, 507u}) expect_same_bits_for_paths(shape, before);
  }
}

TEST_P(CpuBits, slopes_of_zero_change_no_bit) {
  const Shape plain{.kv_heads = 1, .group = 8, .head_dim = 32};
  Shape sloped = plain;
  sloped.slopes = true;
  Rig without(plain, GetParam());
  Rig with(sloped, GetParam());
  with.flatten_slopes();
  const auto expected = without.step({{0, 0, 100}});
  EXPECT_TRUE(same_bits(with.step({{0, 0, 100}}).data(), expected.data(), expected.size()));
}

TEST_P(CpuBits, a_row_has_the_same_bits_however_the_prompt_is_cut) {
  for (DType dtype : kTypes) {
    for (uint32_t dim : {24u, 64u}) {
      expect_same_bits_for_chunks({.kv_heads = 2, .group = 3, .head_dim = dim, .dtype = dtype});
      expect_same_bits_for_chunks(
          {.kv_heads = 1, .group = 4, .head_dim = dim, .dtype = dtype, .window_tokens = 90});
    }
  }
}

TEST_P(CpuBits, a_row_has_the_same_bits_for_every_block_size_and_order_of_blocks) {
  constexpr uint32_t kTokens = 600;
  for (DType dtype : kTypes) {
    const Shape shape{.head_dim = 40, .dtype = dtype};
    Rig first(shape, GetParam());
    const auto expected = first.step({{0, 0, kTokens}});
    for (uint32_t block : {1u, 16u, 64u, 100u, 2048u}) {
      Shape other = shape;
      other.block_tokens = block;
      Rig rig(other, GetParam());
      std::reverse(rig.table(0).begin(), rig.table(0).end());
      const auto out = rig.step({{0, 0, kTokens}}, 2);
      EXPECT_TRUE(same_bits(out.data(), expected.data(), out.size()))
          << "block " << block << " " << dtype_name(dtype);
    }
  }
}

TEST_P(CpuBits, a_row_has_the_same_bits_beside_any_others_and_for_any_slices) {
  constexpr uint32_t kTokens = 1800;
  const Shape shape{.kv_heads = 3, .group = 2, .head_dim = 32, .dtype = DType::i4};
  Rig alone(shape, GetParam(), 3, 1);
  alone.step({{1, 0, kTokens}});
  const auto expected = alone.step({{1, kTokens, 1}});
  for (uint32_t plan_slices : {2u, 3u, 8u}) {
    for (uint32_t slices : {1u, 2u, 3u}) {
      Rig rig(shape, GetParam(), 3, plan_slices);
      rig.step({{1, 0, kTokens}}, slices);
      const auto single = rig.step({{1, kTokens, 1}}, slices);
      EXPECT_TRUE(same_bits(single.data(), expected.data(), single.size()));
      const auto mixed = rig.step({{0, 0, 33}, {1, kTokens, 1}, {2, 0, 5}}, slices);
      EXPECT_TRUE(same_bits(&mixed[33 * rig.row_floats()], expected.data(), expected.size()));
    }
  }
}

TEST_P(CpuBits, rows_before_a_poisoned_token_do_not_notice_it) {
  for (DType dtype : {DType::f16, DType::i8, DType::i4}) {
    const Shape shape{.kv_heads = 1, .group = 3, .head_dim = 32, .dtype = dtype};
    Rig clean(shape, GetParam());
    const auto expected = clean.step({{0, 0, 100}});
    // Some of them share a block of rows with the one before, whatever the width of the kernel.
    for (uint32_t token : {1u, 65u, 66u, 70u, 71u, 99u}) {
      Rig rig(shape, GetParam());
      rig.poison(0, token);
      const auto out = rig.step({{0, 0, 100}});
      EXPECT_TRUE(same_bits(out.data(), expected.data(), token * rig.row_floats())) << token;
      EXPECT_TRUE(std::isnan(out[token * rig.row_floats()])) << token;
    }
  }
}

// The first token attends to itself alone: its output is its V as it came out of the cache.
TEST_P(CpuBits, blocks_that_a_window_left_behind_are_not_read) {
  const Shape shape{.head_dim = 16, .window_tokens = 20};
  Rig rig(shape, GetParam());
  const auto all = rig.step({{0, 0, 100}});
  Rig again(shape, GetParam());
  again.step({{0, 0, 99}});
  for (uint32_t block = 0; block < 5; ++block) again.table(0)[block] = kNoBlock;
  const auto out = again.step({{0, 99, 1}});
  EXPECT_TRUE(same_bits(out.data(), &all[99 * rig.row_floats()], out.size()));
}

TEST_P(CpuBits, a_row_has_the_same_bits_where_another_kernel_has_the_other_sequences) {
  const Shape shape{.kv_heads = 2, .group = 2, .head_dim = 32};
  Rig all(shape, GetParam(), 3);
  Rig some(shape, GetParam(), 3);
  const std::vector<Rig::Chunk> chunks = {{0, 0, 40}, {1, 0, 1}, {2, 0, 7}};
  const auto expected = all.step(chunks, 2);
  const auto out = some.step_of(chunks, {0, 2}, 3);
  const size_t row = some.row_floats();
  EXPECT_TRUE(same_bits(out.data(), expected.data(), 40 * row));
  EXPECT_TRUE(same_bits(&out[41 * row], &expected[41 * row], 7 * row));
  EXPECT_TRUE(std::isnan(out[40 * row]));
}

TEST_P(CpuBits, a_row_of_a_tree_has_the_bits_of_its_path_as_a_chain) {
  for (DType dtype : kTypes) {
    for (uint32_t before : {0u, 59u, 64u, 507u}) {
      expect_same_bits_for_paths({.head_dim = 64, .dtype = dtype}, before);
      expect_same_bits_for_paths(
          {.kv_heads = 1, .group = 3, .head_dim = 37, .block_tokens = 5, .dtype = dtype}, before);
      expect_same_bits_for_paths(
          {.kv_heads = 3, .group = 1, .head_dim = 24, .dtype = dtype, .window_tokens = 3}, before);
    }
    expect_same_bits_for_paths(
        {.kv_heads = 1, .group = 100, .head_dim = 16, .dtype = dtype, .soft_cap = 2.0f}, 70);
    expect_same_bits_for_paths({.head_dim = 40, .dtype = dtype, .window_tokens = 70, .v_dim = 33},
                               510);
  }
}

TEST_P(CpuBits, trees_and_chains_share_a_batch) {
  const Shape shape{.kv_heads = 3, .group = 2, .head_dim = 32, .dtype = DType::bf16};
  Rig alone(shape, GetParam(), 3);
  Rig rig(shape, GetParam(), 3, 3);
  for (Rig* one : {&alone, &rig}) one->step({{0, 0, 600}, {2, 0, 600}}, 2);
  const auto tree = alone.step({{{2, 600, 4}}, {3000, 3001, 3002, 3003}, {-1, 0, 0, 2}});
  const auto chain = alone.step({{0, 600, 3}});
  const auto both = rig.step({{{0, 600, 3}, {1, 0, 2}, {2, 600, 4}},
                              {600, 601, 602, 0, 1, 3000, 3001, 3002, 3003},
                              {-1, 0, 1, -1, 3, -1, 5, 5, 7}},
                             2);
  const size_t row = rig.row_floats();
  EXPECT_TRUE(same_bits(both.data(), chain.data(), 3 * row));
  EXPECT_TRUE(same_bits(&both[5 * row], tree.data(), 4 * row));
}

TEST_P(CpuBits, rows_may_see_rows_behind_them) {
  for (DType dtype : {DType::f32, DType::i8}) {
    const Shape shape{.head_dim = 24, .dtype = dtype};
    Rig rig(shape, GetParam());
    std::vector<uint32_t> sees_to(30);
    std::iota(sees_to.begin(), sees_to.end(), 0u);
    std::fill(sees_to.begin() + 10, sees_to.begin() + 20, 19u);
    rig.step({{0, 0, 70}});
    const auto out = rig.step_seeing({{0, 70, 30}}, sees_to);
    Rig chain(shape, GetParam());
    chain.step({{0, 0, 70}});
    const auto expected = chain.step({{0, 70, 30}});
    const size_t row = rig.row_floats();
    // What rows see differs inside the span alone; its last row sees what it would anyway.
    EXPECT_TRUE(same_bits(out.data(), expected.data(), 10 * row));
    EXPECT_FALSE(same_bits(&out[10 * row], &expected[10 * row], row));
    EXPECT_TRUE(same_bits(&out[19 * row], &expected[19 * row], 11 * row));
  }
}

}  // namespace
}  // namespace tenon
