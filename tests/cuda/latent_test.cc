// Layers with latent attention: products of heads, and the models that have them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/exec/cuda/kernels/launches.h"
#include "core/exec/cuda/weights/weights.h"
#include "tests/cuda/rig/emulated_device.h"
#include "tests/cuda/rig/on_device.h"

namespace tenon::cuda::test {
namespace {

TEST(CudaLatent, heads_are_multiplied_with_their_own_matrices) {
  constexpr int kHeads = 3, kN = 10, kK = 12, kIn = 16, kStride = 32;
  for (const Input type : {Input::f32, Input::bf16}) {
    for (const uint32_t rows : {1u, 20u, 67u, 68u}) {
      Numbers numbers(rows);
      EmulatedDevice device;
      const std::vector<float> x = widened(rounded(numbers.many(rows * kHeads * kIn)));
      std::vector<float> w = widened(rounded(numbers.many(kHeads * kN * kStride)));
      for (size_t i = 0; i < w.size(); ++i) {
        if (i % kStride >= kK) w[i] = 0.0f;
      }
      const auto upload = [&](const std::vector<float>& values, const char* name) {
        return type == Input::f32 ? static_cast<const void*>(device.upload(values, name))
                                  : device.upload(rounded(values), name);
      };
      MultiplyCall call = {};
      call.x = upload(x, "x");
      call.w = upload(w, "w");
      call.y = device.make<float>(rows * kHeads * kN, "y");
      call.rows = rows;
      call.n_out = kN;
      call.k_in = kK;
      call.x_stride = kHeads * kIn;
      call.w_stride = kStride;
      call.y_stride = kHeads * kN;
      if (rows == 67) call.tiles = ProductTiles::narrow;
      if (rows == 68) call.tiles = ProductTiles::wide;
      EXPECT_EQ(launch_multiply_heads(nullptr, type, call, {kHeads, kIn, kN * kStride, kN}), 0);
      const std::vector<float> y = device.download(call.y, rows * kHeads * kN);
      for (uint32_t item = 0; item < rows * kHeads; ++item) {
        for (uint32_t n = 0; n < kN; ++n) {
          double sum = 0.0;
          for (uint32_t k = 0; k < kK; ++k) {
            sum += double{x[item * kIn + k]} * w[(item % kHeads * kN + n) * kStride + k];
          }
          ASSERT_NEAR(y[item * kN + n], sum, 1e-5) << item << ", " << n;
        }
      }
    }
  }
}

TEST(CudaLatent, models_give_the_logits_of_the_oracle) {
  for (const char* name :
       {"deepseek_v2", "deepseek_v2_experts", "deepseek_v2_groups", "deepseek_v2_low_rank_q",
        "deepseek_v3", "deepseek_v3_experts", "deepseek_v3_halves", "deepseek_v3_one_group"}) {
    expect_oracle(std::string("models/") + name, 1e-4f, {});
  }
}

TEST(CudaLatent, in_bf16_gives_the_logits_of_the_oracle) {
  for (const char* name : {"models/deepseek_v2", "models/deepseek_v3"}) expect_oracle_in_bf16(name);
}

TEST(CudaLatent, keeps_one_row_a_token) {
  const auto model = open_golden("models/deepseek_v2");
  ASSERT_NE(model, nullptr);
  const ModelShapeStorage shape(model->plan, 64);
  LoadOptions options;
  OnDevice device(*model, shape.shape(), options);
  const LayerPlan& layer = model->plan.layers[0];
  EXPECT_EQ(device.executor->kv_bytes(), uint64_t{options.blocks} * options.block_tokens *
                                             layer.latent.row_dim() * sizeof(float) *
                                             model->plan.layers.size());
  const auto announced = DeviceWeights::needs_of(*model);
  ASSERT_TRUE(announced.ok());
  EXPECT_EQ(device.executor->weight_bytes(), announced->bytes);
}

}  // namespace
}  // namespace tenon::cuda::test
