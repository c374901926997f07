// Attention against double precision, and what the kernel refuses.
#include "tests/support/attention/attention_rig.h"

namespace tenon {
namespace {

class CpuAccuracy : public testing::TestWithParam<CpuFeatures> {
 protected:
  // A prompt at once, compared at some tokens with double precision.
  void expect_accurate(const Shape& shape, uint32_t tokens) {
    Rig rig(shape, GetParam());
    const auto out = rig.step({{0, 0, tokens}}, 2);
    for (uint32_t token : {0u, tokens / 3, tokens - 1}) {
      EXPECT_LE(
          relative_rms({&out[token * rig.row_floats()], rig.row_floats()}, rig.reference(0, token)),
          1e-5)
          << "head_dim " << shape.head_dim << " group " << shape.group << " block "
          << shape.block_tokens << " token " << token << " of " << tokens << " "
          << (shape.latent ? "latent " : "") << dtype_name(shape.dtype) << " window "
          << shape.window_tokens;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Isa, CpuAccuracy, testing::ValuesIn(distinct_isas()),
                         [](const auto& given) { return std::string(cpu_isa_name(given.param)); });

TEST_P(CpuAccuracy, agrees_with_double_precision_for_every_head_size_and_type) {
  for (uint32_t head_dim : {1u, 8u, 16u, 32u, 37u, 64u, 80u, 96u, 127u, 128u, 256u, 257u, 512u}) {
    for (DType dtype : kTypes) {
      expect_accurate({.head_dim = head_dim, .dtype = dtype}, 70);
    }
  }
  expect_accurate({.head_dim = 40, .dtype = DType::bf16, .v_dim = 300}, 70);
  expect_accurate({.head_dim = 500, .dtype = DType::i8, .v_dim = 64}, 70);
}

TEST_P(CpuAccuracy, agrees_with_double_precision_for_every_group_of_heads) {
  for (uint32_t group : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 12u, 13u, 100u}) {
    for (DType dtype : {DType::bf16, DType::i8, DType::i4}) {
      expect_accurate({.kv_heads = 1, .group = group, .head_dim = 32, .dtype = dtype}, 130);
    }
  }
}

TEST_P(CpuAccuracy, agrees_with_double_precision_around_block_tile_and_range_ends) {
  for (uint32_t block : {1u, 16u, 64u, 2048u}) {
    for (uint32_t tokens : {1u, 2u, 15u, 16u, 17u, 63u, 64u, 65u, 511u, 512u, 513u, 1100u}) {
      expect_accurate({.kv_heads = 1, .group = 1, .head_dim = 8, .block_tokens = block}, tokens);
    }
  }
}

TEST_P(CpuAccuracy, sinks_take_their_part_of_the_softmax) {
  // Far below all scores, among them, above them, and so far above that nothing else counts.
  const std::vector<float> sinks = {-300.0f, 0.5f, 9.0f, 400.0f};
  for (const uint32_t tokens : {1u, 40u, 513u, 1100u}) {
    expect_accurate({.head_dim = 24, .sinks = sinks}, tokens);
  }
  expect_accurate({.dtype = DType::bf16, .window_tokens = 40, .sinks = sinks}, 100);
  expect_accurate({.dtype = DType::i4, .soft_cap = 5.0f, .sinks = sinks}, 100);
}

TEST_P(CpuAccuracy, agrees_with_double_precision_with_windows_and_soft_caps) {
  for (uint32_t window : {1u, 5u, 64u, 100u, 600u}) {
    expect_accurate({.kv_heads = 1, .head_dim = 16, .window_tokens = window}, 700);
  }
  for (const uint32_t chunk : {1u, 7u, 64u, 90u, 700u}) {
    expect_accurate({.kv_heads = 1, .head_dim = 16, .window_tokens = chunk, .chunks = true}, 300);
  }
  expect_accurate({.dtype = DType::f16, .soft_cap = 2.0f}, 100);
  expect_accurate({.head_dim = 24, .soft_cap = 1000.0f}, 100);  // far above all scores
  expect_accurate({.dtype = DType::bf16, .window_tokens = 40, .soft_cap = 20.0f}, 100);
  expect_accurate({.dtype = DType::i8, .window_tokens = 40}, 100);
  expect_accurate({.dtype = DType::i4, .window_tokens = 40, .soft_cap = 20.0f}, 100);
  for (DType dtype : kTypes) {
    expect_accurate({.head_dim = 24, .dtype = dtype, .v_dim = 40}, 100);
    expect_accurate({.head_dim = 64, .dtype = dtype, .v_dim = 33}, 100);
  }
}

// DeepSeek's rows of 512 + 64, and some that fit no vector.
TEST_P(CpuAccuracy, agrees_with_double_precision_over_latent_rows) {
  for (DType dtype : kTypes) {
    expect_accurate(latent_shape(576, 512, 16, dtype), 100);
    expect_accurate(latent_shape(28, 20, 3, dtype), 600);
    expect_accurate(latent_shape(29, 21, 13, dtype), 70);
    expect_accurate(latent_shape(200, 136, 130, dtype), 3);
    expect_accurate(latent_shape(1024, 1024, 1, dtype), 65);
    Shape windowed = latent_shape(72, 64, 5, dtype);
    windowed.window_tokens = 40;
    windowed.soft_cap = 20.0f;
    expect_accurate(windowed, 100);
  }
}

TEST_P(CpuAccuracy, slopes_weigh_the_distance_with_windows_and_caps_and_in_every_type) {
  for (const DType dtype : kTypes) {
    for (const uint32_t window : {0u, 90u}) {
      for (const float cap : {0.0f, 2.0f}) {
        const Shape shape{.kv_heads = 3,
                          .group = 3,
                          .head_dim = 20,
                          .dtype = dtype,
                          .window_tokens = window,
                          .soft_cap = cap,
                          .slopes = true};
        for (const uint32_t tokens : {1u, 65u, 700u}) expect_accurate(shape, tokens);
      }
    }
  }
}

TEST_P(CpuAccuracy, the_first_token_gives_back_its_row_whatever_stands_in_it) {
  std::vector<float> ramp(64);
  for (size_t d = 0; d < ramp.size(); ++d) ramp[d] = 0.37f * static_cast<float>(d) - 5.0f;
  std::vector<float> one_large(64, 0.001f);
  one_large[17] = 300.0f;
  const std::vector<float> rows[] = {ramp, one_large, std::vector<float>(64, 0.0f),
                                     std::vector<float>(64, -2.5f), std::vector<float>(64, 1e-6f)};
  for (DType dtype : kTypes) {
    for (const std::vector<float>& row : rows) {
      Rig rig({.dtype = dtype}, GetParam());
      rig.give(0, 0, row);
      const auto out = rig.step({{0, 0, 1}});
      const std::vector<double> want = read_back(dtype, row);
      for (size_t d = 0; d < want.size(); ++d) {
        ASSERT_NEAR(out[d], want[d], 1e-6 * std::fabs(want[d]) + 1e-7 * std::fabs(row[17]))
            << dtype_name(dtype) << " " << d;
      }
    }
  }
}

TEST_P(CpuAccuracy, a_quantised_row_with_anything_not_finite_comes_back_as_nan) {
  for (DType dtype : {DType::i8, DType::i4}) {
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      std::vector<float> row(64, 1.0f);
      row[40] = bad;
      Rig rig({.dtype = dtype}, GetParam());
      rig.give(0, 0, row);
      const auto out = rig.step({{0, 0, 1}});
      for (float x : out) ASSERT_TRUE(std::isnan(x)) << dtype_name(dtype) << " " << bad;
    }
  }
}

TEST(CpuAttention, what_it_cannot_do_is_refused_with_the_reason) {
  Rig rig({}, kCpuPortable);
  const int32_t parents[] = {-1, 1};
  EXPECT_EQ(rig.try_plan({{0, 0, 2}}, parents).message(),
            "row 1 follows row 1, which is no earlier one of its sequence");
  rig.table(0).resize(1);
  EXPECT_EQ(rig.try_plan({{0, 0, 17}}).message(),
            "row 16 is stored at position 16, behind its sequence's 16 slots");

  AttentionBinding binding = rig.binding(1, 1);
  binding.dtype = DType::bf16;
  EXPECT_EQ(rig.kernel().bind(binding).message(), "activations are bf16; \"cpu\" takes f32");
  binding.dtype = DType::f32;
  KvGroupStorage storage = binding.storage[0];
  storage.dtype = DType::u8;
  binding.storage = {&storage, 1};
  EXPECT_EQ(rig.kernel().bind(binding).message(),
            "kv.dtype is u8; \"cpu\" reads f32, f16, bf16, i8 and i4");
  KvGroup latent = binding.model->groups[0];
  latent.kind = KvKind::latent;
  latent.k_dim = 1025;
  ModelShape model = *binding.model;
  model.groups = &latent;
  binding.model = &model;
  storage.dtype = DType::f32;
  EXPECT_EQ(rig.kernel().bind(binding).message(),
            "latent rows have 1025 elements, 64 of them V; \"cpu\" takes 1 to 1024, V at most all "
            "of them");
}

TEST(CpuAttention, groups_that_it_was_not_bound_to_may_be_anything) {
  Rig rig({}, kCpuPortable);
  AttentionBinding binding = rig.binding(1, 1);
  const KvGroup groups[] = {binding.model->groups[0], {.kind = KvKind::recurrent}};
  const LayerShape layers[] = {binding.model->layers[0], {.group = kNoGroup, .state_group = 1}};
  const KvGroupStorage storage[] = {binding.storage[0], {}};
  ModelShape model = *binding.model;
  model.group_count = model.layer_count = 2;
  model.groups = groups;
  model.layers = layers;
  binding.model = &model;
  binding.storage = storage;
  EXPECT_TRUE(rig.kernel().bind(binding).ok());
  const GroupId other[] = {1};
  binding.groups = other;
  EXPECT_EQ(rig.kernel().bind(binding).code(), StatusCode::unsupported);
}

TEST(CpuAttention, the_name_of_the_numerics_follows_the_processor) {
  EXPECT_EQ(Rig({}, kCpuPortable).kernel().numerics(), "cpu/portable");
  if (!detect_cpu_features().has(CpuFeature::avx512_bf16)) return;
  EXPECT_EQ(Rig({}, kCpuAvx2).kernel().numerics(), "cpu/avx2");
  EXPECT_EQ(Rig({}, kCpuAvx512Bf16).kernel().numerics(), "cpu/avx512");
}

}  // namespace
}  // namespace tenon
