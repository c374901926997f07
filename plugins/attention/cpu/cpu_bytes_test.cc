// Products of bytes (products = "int8"): what rounding costs against double precision, the same
// bits however steps are made, and where they are refused.
#include "tests/support/attention/attention_products.h"

namespace tenon {
namespace {

constexpr DType kQuantised[] = {DType::i8, DType::i4};

class CpuBytes : public testing::Test {
 protected:
  void SetUp() override {
    if (!detect_cpu_features().has_all(kCpuAvx512Vnni)) GTEST_SKIP() << "no AVX-512 VNNI";
  }
  static Shape heads(uint32_t kv_heads, uint32_t group, uint32_t head_dim, DType dtype) {
    return {
        .kv_heads = kv_heads, .group = group, .head_dim = head_dim, .dtype = dtype, .bytes = true};
  }
  // Queries have 7 bits and the sign, weights 8: each errs by less than a step, and errors of
  // many cancel out.
  static void expect_near(const Shape& shape, uint32_t tokens, double most = 2e-2) {
    expect_near_double(shape, tokens, kCpuAvx512Vnni, most);
  }
};

TEST_F(CpuBytes, are_near_double_precision_over_heads_of_every_size) {
  for (DType dtype : kQuantised) {
    for (uint32_t head_dim : {1u,  2u,  3u,  8u,   15u,  16u,  31u,  32u,  33u,  40u,  63u, 64u,
                              65u, 80u, 96u, 127u, 128u, 129u, 192u, 255u, 256u, 257u, 512u}) {
      expect_near(heads(2, 2, head_dim, dtype), 70);
    }
    for (uint32_t group : {1u, 2u, 3u, 4u, 5u, 12u, 13u, 100u}) {
      expect_near(heads(1, group, 32, dtype), 130);
    }
    Shape apart = heads(2, 3, 64, dtype);
    apart.v_dim = 33;
    expect_near(apart, 100);
    apart.head_dim = 40;
    apart.v_dim = 200;
    expect_near(apart, 100);
  }
}

TEST_F(CpuBytes, are_near_double_precision_over_long_contexts) {
  for (DType dtype : kQuantised) {
    expect_near(heads(2, 4, 64, dtype), 2000);
    expect_near(heads(1, 4, 128, dtype), 2000);
  }
}

TEST_F(CpuBytes, are_near_double_precision_at_every_end_of_a_window_or_tile) {
  for (DType dtype : kQuantised) {
    for (uint32_t window : {1u, 2u, 3u, 40u, 63u, 64u, 65u, 100u}) {
      for (uint32_t tokens : {1u, 2u, 63u, 64u, 65u, 513u}) {
        Shape shape = heads(1, 5, 48, dtype);
        shape.window_tokens = window;
        shape.block_tokens = 1 + tokens % 7;
        expect_near(shape, tokens);
      }
    }
  }
}

TEST_F(CpuBytes, know_soft_caps_slopes_and_sinks) {
  for (DType dtype : kQuantised) {
    Shape capped = heads(2, 2, 64, dtype);
    capped.soft_cap = 20.0f;
    expect_near(capped, 100);
    Shape sloped = heads(2, 4, 24, dtype);
    sloped.slopes = true;
    expect_near(sloped, 200);
    Shape sunk = heads(2, 2, 24, dtype);
    sunk.sinks = {-300.0f, 0.5f, 9.0f, 400.0f};
    expect_near(sunk, 100);
  }
}

// Rows of a constant have the scale 0 in i4, and all weight in what is added to them.
TEST_F(CpuBytes, of_values_that_are_all_alike_give_them_back) {
  for (DType dtype : kQuantised) {
    for (const Shape& shape : {heads(1, 3, 64, dtype), heads(1, 3, 37, dtype)}) {
      for (const float value : {0.0f, 1.5f, -2.0f, 1e-30f, 1e34f}) {
        Rig rig(shape, kCpuAvx512Vnni);
        rig.give_all(std::vector<float>(shape.head_dim, value));
        const double want = read_back(dtype, std::vector<float>(shape.head_dim, value))[0];
        for (const float x : rig.step({{0, 0, 600}})) {
          ASSERT_NEAR(x, want, 1e-2 * std::fabs(value)) << dtype_name(dtype) << " " << value;
        }
      }
    }
  }
}

TEST_F(CpuBytes, multiply_latent_rows_in_f32) {
  for (DType dtype : kQuantised) {
    Shape shape = latent_shape(72, 64, 5, dtype);
    const auto expected = Rig(shape, kCpuAvx512Vnni).step({{0, 0, 600}}, 2);
    shape.bytes = true;
    const auto out = Rig(shape, kCpuAvx512Vnni).step({{0, 0, 600}}, 2);
    EXPECT_TRUE(same_bits(out.data(), expected.data(), out.size())) << dtype_name(dtype);
  }
}

TEST_F(CpuBytes, give_a_row_the_same_bits_however_the_prompt_is_cut_or_branches) {
  for (DType dtype : kQuantised) {
    for (const Shape& shape : {heads(2, 3, 64, dtype), heads(1, 4, 128, dtype),
                               heads(1, 7, 40, dtype), heads(3, 1, 33, dtype)}) {
      expect_same_bits_for_chunks(shape, kCpuAvx512Vnni);
    }
    Shape windowed = heads(1, 5, 72, dtype);
    windowed.window_tokens = 91;
    expect_same_bits_for_chunks(windowed, kCpuAvx512Vnni);
    Shape sloped = heads(2, 4, 24, dtype);
    sloped.slopes = true;
    expect_same_bits_for_chunks(sloped, kCpuAvx512Vnni);
    Shape capped = heads(1, 6, 64, dtype);
    capped.soft_cap = 15.0f;
    expect_same_bits_for_chunks(capped, kCpuAvx512Vnni);
    for (uint32_t before : {0u, 59u, 64u, 507u, 510u}) {
      expect_same_bits_for_paths(heads(2, 3, 64, dtype), before, kCpuAvx512Vnni);
      expect_same_bits_for_paths(heads(3, 1, 24, dtype), before, kCpuAvx512Vnni);
      expect_same_bits_for_paths(heads(1, 100, 40, dtype), before, kCpuAvx512Vnni);
    }
  }
}

TEST_F(CpuBytes, give_a_row_the_same_bits_for_any_blocks_slices_and_neighbours) {
  for (DType dtype : kQuantised) {
    for (const Shape& shape :
         {heads(3, 2, 64, dtype), heads(1, 5, 44, dtype), heads(2, 4, 128, dtype)}) {
      expect_same_bits_for_blocks(shape, kCpuAvx512Vnni);
    }
  }
}

TEST_F(CpuBytes, of_rows_before_a_poisoned_token_do_not_notice_it) {
  for (DType dtype : kQuantised) {
    expect_poison_unseen(heads(1, 3, 32, dtype), 150, kCpuAvx512Vnni);
  }
}

// With one slice nothing lies after its scratch memory but the guard.
TEST_F(CpuBytes, keep_within_their_workspace) {
  for (DType dtype : kQuantised) {
    for (uint32_t head_dim : {1u, 8u, 33u, 64u, 100u}) {
      Rig rig(heads(1, 2, head_dim, dtype), kCpuAvx512Vnni, 1, 1);
      rig.step({{0, 0, 100}});
    }
  }
}

TEST_F(CpuBytes, tell_what_weight_entries_got) {
  expect_all_weight_told(heads(1, 5, 64, DType::i8), kCpuAvx512Vnni);
}

TEST_F(CpuBytes, have_numerics_of_their_own) {
  for (DType dtype : kQuantised) {
    Shape shape = heads(2, 2, 64, dtype);
    EXPECT_EQ(Rig(shape, kCpuAvx512Vnni).kernel().numerics(), "cpu/avx512_vnni");
    const auto bytes = Rig(shape, kCpuAvx512Vnni).step({{0, 0, 70}});
    shape.bytes = false;
    Rig plain(shape, kCpuAvx512Vnni);
    EXPECT_EQ(plain.kernel().numerics(), "cpu/avx512");
    EXPECT_FALSE(same_bits(bytes.data(), plain.step({{0, 0, 70}}).data(), bytes.size()));
  }
}

TEST(CpuBytesRefused, where_the_processor_or_the_cache_lacks_what_they_need) {
  expect_refusals({.option = 2,
                   .name = "int8",
                   .isa = kCpuAvx512Vnni,
                   .isa_name = "avx512_vnni",
                   .without = kCpuAvx512,
                   .refused = {DType::f32, DType::f16, DType::bf16},
                   .taken = "i8 or i4"},
                  {.dtype = DType::i8});
}

}  // namespace
}  // namespace tenon
