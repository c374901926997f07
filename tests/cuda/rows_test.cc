#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/exec/cuda/kernels/launches.h"
#include "tests/cuda/rig/emulated_device.h"

namespace tenon::cuda::test {
namespace {

constexpr int kWidths[] = {1, 5, 64, 129, 256, 300, 1028};

TEST(CudaRows, embeds_tokens_scaled_and_with_positions) {
  Numbers numbers(1);
  const int width = 21, stride = 24;
  const std::vector<float> table = widened(rounded(numbers.many(10 * stride)));
  const std::vector<float> positions = widened(rounded(numbers.many(6 * stride)));
  for (const Input type : {Input::f32, Input::bf16}) {
    EmulatedDevice device;
    EmbedCall call = {};
    call.tokens = device.upload<int32_t>({9, 0, 4}, "tokens");
    call.positions = device.upload<uint32_t>({5, 0, 2}, "positions");
    const bool wide = type == Input::f32;
    call.table = wide ? static_cast<const void*>(device.upload(table, "table"))
                      : device.upload(rounded(table), "table");
    call.position_table = wide ? static_cast<const void*>(device.upload(positions, "positions"))
                               : device.upload(rounded(positions), "positions");
    call.weights = type;
    call.hidden = device.make<float>(3 * width, "hidden");
    call.rows = 3;
    call.width = width;
    call.stride = call.position_stride = stride;
    call.scale = 3.0f;
    EXPECT_EQ(launch_embed(nullptr, call), 0);
    const std::vector<float> hidden = device.download(call.hidden, 3 * width);
    const int tokens[] = {9, 0, 4}, places[] = {5, 0, 2};
    for (int row = 0; row < 3; ++row) {
      for (int i = 0; i < width; ++i) {
        EXPECT_EQ(hidden[row * width + i],
                  table[tokens[row] * stride + i] * 3.0f + positions[places[row] * stride + i]);
      }
    }
  }
}

// Where the table and hidden begin and how long their rows are decides how they move.
TEST(CudaRows, embeds_alike_wherever_rows_lie) {
  Numbers numbers(8);
  const int width = 1100;
  const std::vector<BFloat16> table = rounded(numbers.many(uint64_t{3} * width));
  for (const int stride : {width, width + 1, width + 4}) {
    for (const int offset : {0, 1, 4}) {
      EmulatedDevice device;
      std::vector<BFloat16> shifted(offset + 3ull * stride);
      for (int i = 0; i < 3 * width; ++i) {
        shifted[offset + i / width * stride + i % width] = table[i];
      }
      EmbedCall call = {};
      call.tokens = device.upload<int32_t>({2, 1}, "tokens");
      call.table = device.upload(shifted, "table") + offset;
      call.weights = Input::bf16;
      call.hidden = device.make<float>(2ull * width + offset, "hidden") + offset;
      call.rows = 2;
      call.width = width;
      call.stride = stride;
      call.scale = 2.0f;
      EXPECT_EQ(launch_embed(nullptr, call), 0);
      const std::vector<float> hidden = device.download(call.hidden, 2ull * width);
      for (int i = 0; i < 2 * width; ++i) {
        EXPECT_EQ(hidden[i], 2.0f * to_float(table[(i < width ? 2 : 0) * width + i]));
      }
    }
  }
}

struct NormCase {
  bool centered;
  uint32_t weight_rows;
  bool bias;
};

std::vector<float> norm(const std::vector<float>& x, const std::vector<float>& weight,
                        const std::vector<float>& bias, NormShape shape, uint64_t seed = 1) {
  EmulatedDevice device(seed);
  float* out = device.make<float>(x.size(), "out");
  EXPECT_EQ(
      launch_norm(nullptr, device.upload(x, "x"), device.upload(weight, "weight"),
                  bias.empty() ? nullptr : device.upload(bias, "bias"), out, Input::f32, shape),
      0);
  return device.download(out, x.size());
}

TEST(CudaRows, are_opened_by_gates_in_place) {
  for (const int width : {5, 64, 516}) {
    for (const Input type : {Input::f32, Input::bf16}) {
      Numbers numbers(width);
      EmulatedDevice device;
      const int stride = width + 3, gate_stride = 2 * width;
      const std::vector<float> x = widened(rounded(numbers.many(3ull * stride)));
      const std::vector<float> gate = numbers.many(3ull * gate_stride);
      const float* const opens = device.upload(gate, "gate");
      std::vector<float> y;
      if (type == Input::f32) {
        float* const rows = device.upload_variable(x, "rows");
        EXPECT_EQ(launch_open(nullptr, opens, rows, type, 3, width, gate_stride, stride), 0);
        y = device.download(rows, x.size());
      } else {
        BFloat16* const rows = device.upload_variable(rounded(x), "rows");
        EXPECT_EQ(launch_open(nullptr, opens, rows, type, 3, width, gate_stride, stride), 0);
        y = widened(device.download(rows, x.size()));
      }
      for (int row = 0; row < 3; ++row) {
        for (int i = 0; i < width; ++i) {
          const float old = x[row * stride + i];
          const double open = 1.0 / (1.0 + std::exp(-double{gate[row * gate_stride + i]}));
          EXPECT_NEAR(y[row * stride + i], old * open, type == Input::f32 ? 1e-6 : 4e-3) << i;
        }
        EXPECT_EQ(y[row * stride + width], x[row * stride + width]) << "what follows a row";
      }
    }
  }
}

TEST(CudaRows, norms_follow_their_formulas) {
  for (const int width : kWidths) {
    for (const NormCase& c : {NormCase{false, 1, false}, {true, 1, true}, {false, 3, false}}) {
      Numbers numbers(2);
      NormShape shape;
      shape.rows = 6;
      shape.width = shape.out_stride = width;
      shape.weight_rows = c.weight_rows;
      shape.eps = 1e-5f;
      shape.centered = c.centered;
      const std::vector<float> x = numbers.many(6ull * width);
      const std::vector<float> weight = numbers.many(uint64_t{c.weight_rows} * width);
      const std::vector<float> bias = c.bias ? numbers.many(width) : std::vector<float>();
      const std::vector<float> y = norm(x, weight, bias, shape);
      for (int row = 0; row < 6; ++row) {
        double mean = 0.0, squares = 0.0;
        for (int i = 0; i < width; ++i) mean += c.centered ? x[row * width + i] / width : 0.0;
        for (int i = 0; i < width; ++i) squares += std::pow(x[row * width + i] - mean, 2) / width;
        for (int i = 0; i < width; ++i) {
          const double expected = (x[row * width + i] - mean) / std::sqrt(squares + 1e-5) *
                                      weight[row % c.weight_rows * width + i] +
                                  (c.bias ? bias[i] : 0.0f);
          EXPECT_NEAR(y[row * width + i], expected, 1e-5) << width << " wide, row " << row;
        }
      }
    }
  }
}

// The same numbers `offset` elements after an aligned address, in rows of `stride`.
std::vector<float> norm_of_moved(const std::vector<float>& x, const std::vector<float>& weight,
                                 NormShape shape, int offset) {
  EmulatedDevice device;
  std::vector<float> moved(offset + uint64_t{shape.rows} * shape.x_stride);
  const int width = shape.width;
  for (uint32_t row = 0; row < shape.rows; ++row) {
    std::copy_n(x.begin() + row * width, width, moved.begin() + offset + row * shape.x_stride);
  }
  float* rows = device.upload_variable(moved, "rows") + offset;
  EXPECT_EQ(
      launch_norm(nullptr, rows, device.upload(weight, "weight"), nullptr, rows, Input::f32, shape),
      0);
  std::vector<float> y;
  for (uint32_t row = 0; row < shape.rows; ++row) {
    const std::vector<float> own = device.download(rows + row * shape.x_stride, width);
    y.insert(y.end(), own.begin(), own.end());
  }
  return y;
}

TEST(CudaRows, norms_have_the_same_bits_wherever_rows_lie_and_however_many_there_are) {
  for (const int width : {64, 252, 516, 4100, 16388}) {
    for (const bool centered : {false, true}) {
      SCOPED_TRACE(width);
      Numbers numbers(9);
      NormShape shape;
      shape.rows = width < 1000 ? 6 : 2;
      shape.width = width;
      shape.eps = 1e-5f;
      shape.centered = centered;
      const std::vector<float> x = numbers.many(uint64_t{shape.rows} * width);
      const std::vector<float> weight = numbers.many(width);
      shape.x_stride = shape.out_stride = width;
      const std::vector<float> expected = norm_of_moved(x, weight, shape, 0);
      EXPECT_EQ(norm_of_moved(x, weight, shape, 1), expected);
      shape.x_stride = shape.out_stride = width + 1;
      EXPECT_EQ(norm_of_moved(x, weight, shape, 0), expected);
      const std::vector<float> last(x.end() - width, x.end());
      shape.rows = 1;
      shape.x_stride = shape.out_stride = width;
      const std::vector<float> alone = norm_of_moved(last, weight, shape, 0);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), expected.end() - width));
    }
  }
}

TEST(CudaRows, norms_have_the_same_bits_in_any_order_of_threads) {
  Numbers numbers(3);
  NormShape shape;
  shape.rows = 2;
  shape.width = shape.out_stride = 300;
  const std::vector<float> x = numbers.many(600), weight = numbers.many(300);
  const std::vector<float> expected = norm(x, weight, {}, shape);
  for (uint64_t seed = 2; seed < 8; ++seed) EXPECT_EQ(norm(x, weight, {}, shape, seed), expected);
}

TEST(CudaRows, norms_add_to_what_is_there_and_round_for_products) {
  Numbers numbers(4);
  EmulatedDevice device;
  const std::vector<float> x = numbers.many(20), weight = numbers.many(10), y = numbers.many(20);
  NormShape shape;
  shape.rows = 2;
  shape.width = 10;
  shape.out_stride = 10;
  const std::vector<float> plain = norm(x, weight, {}, shape);
  shape.add = true;
  shape.factor = 2.0f;
  float* added = device.upload_variable(y, "added");
  const float* from = device.upload(x, "x");
  const float* scale = device.upload(weight, "weight");
  EXPECT_EQ(launch_norm(nullptr, from, scale, nullptr, added, Input::f32, shape), 0);
  shape.add = false;
  shape.out_stride = 16;
  BFloat16* round = device.make<BFloat16>(32, "rounded");
  EXPECT_EQ(launch_norm(nullptr, from, scale, nullptr, round, Input::bf16, shape), 0);
  const std::vector<float> sums = device.download(added, 20);
  const std::vector<BFloat16> bits = device.download(round, 32);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_FLOAT_EQ(sums[i], y[i] + 2.0f * plain[i]);
    EXPECT_EQ(bits[i / 10 * 16 + i % 10].bits, to_bfloat16(plain[i]).bits);
  }
}

TEST(CudaRows, norms_heads_that_stand_side_by_side_in_longer_rows) {
  Numbers numbers(5);
  const int width = 7, heads = 3, stride = 30;
  const std::vector<float> x = numbers.many(2ull * stride), weight = numbers.many(2ull * width);
  EmulatedDevice device;
  NormShape shape;
  shape.rows = 2 * heads;
  shape.heads = heads;
  shape.width = width;
  shape.x_stride = shape.out_stride = stride;
  shape.weight_rows = heads;
  const std::vector<float> weights = numbers.many(uint64_t{heads} * width);
  float* rows = device.upload_variable(x, "rows");
  EXPECT_EQ(launch_norm(nullptr, rows, device.upload(weights, "weight"), nullptr, rows, Input::f32,
                        shape),
            0);
  std::vector<float> expected = x;
  for (int row = 0; row < 2; ++row) {
    const auto from = x.begin() + row * stride;
    NormShape alone = shape;
    alone.rows = heads;
    alone.heads = 1;
    alone.x_stride = alone.out_stride = width;
    const std::vector<float> y = norm({from, from + heads * width}, weights, {}, alone);
    std::ranges::copy(y, expected.begin() + row * stride);
  }
  EXPECT_EQ(device.download(rows, x.size()), expected);
}

double activation(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::silu:
      return x / (1.0 + std::exp(-x));
    case ActivationKind::gelu:
      return x * 0.5 * (1.0 + std::erf(x / std::sqrt(2.0)));
    case ActivationKind::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case ActivationKind::relu:
      return std::max(x, 0.0);
    case ActivationKind::relu_squared:
      return std::pow(std::max(x, 0.0), 2);
  }
  return NAN;
}

TEST(CudaRows, gates_with_every_activation) {
  using enum ActivationKind;
  Numbers numbers(6);
  const std::vector<float> gate = numbers.many(2 * 1103), up = numbers.many(2 * 1103);
  for (const ActivationKind kind : {silu, gelu, gelu_tanh, relu, relu_squared}) {
    for (const bool gated : {true, false}) {
      EmulatedDevice device;
      float* out = device.make<float>(2 * 1104, "out");
      EXPECT_EQ(launch_gate(nullptr, gated ? device.upload(gate, "gate") : nullptr,
                            device.upload(up, "up"), out, Input::f32, 2, 1100, 1103, 1104, kind),
                0);
      const std::vector<float> y = device.download(out, 2 * 1104);
      for (int i = 0; i < 2200; ++i) {
        const int at = i / 1100 * 1103 + i % 1100;
        const double expected =
            gated ? activation(kind, gate[at]) * up[at] : activation(kind, up[at]);
        EXPECT_NEAR(y[i / 1100 * 1104 + i % 1100], expected, 1e-6);
      }
    }
  }
}

TEST(CudaRows, takes_the_rows_that_are_named) {
  Numbers numbers(7);
  const std::vector<float> x = numbers.many(4 * 12);
  EmulatedDevice device;
  float* taken = device.make<float>(2 * 12, "taken");
  EXPECT_EQ(launch_take_rows(nullptr, device.upload(x, "x"),
                             device.upload<uint32_t>({3, 1}, "rows"), taken, Input::f32, 2, 12, 12),
            0);
  const std::vector<float> rows = device.download(taken, 24);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(rows[i], x[(i < 12 ? 36 : 12) + i % 12]);
}

TEST(CudaRows, takes_rows_alike_wherever_they_lie) {
  Numbers numbers(10);
  const int width = 1100;
  for (const Input type : {Input::f32, Input::bf16}) {
    for (const int stride : {width, width + 2, width + 4}) {
      for (const int offset : {0, 3}) {
        const std::vector<float> x = numbers.many(offset + 2ull * stride);
        EmulatedDevice device;
        const float* from = device.upload(x, "x") + offset;
        const uint64_t count = 2ull * stride;
        float* wide = device.make<float>(count, "wide");
        BFloat16* narrow = device.make<BFloat16>(count, "narrow");
        const bool f32 = type == Input::f32;
        void* to = f32 ? static_cast<void*>(wide) : narrow;
        EXPECT_EQ(launch_take_rows(nullptr, from, nullptr, to, type, 2, width, stride, stride), 0);
        const std::vector<float> y =
            f32 ? device.download(wide, count) : widened(device.download(narrow, count));
        for (int i = 0; i < 2 * width; ++i) {
          const int at = i / width * stride + i % width;
          const float expected = x[offset + at];
          EXPECT_EQ(y[at], f32 ? expected : to_float(to_bfloat16(expected)));
        }
      }
    }
  }
}

TEST(CudaRows, scales_caps_and_clips) {
  EmulatedDevice device;
  const std::vector<float> x = {-3.0f, 0.5f, 2.0f};
  float* scaled = device.upload_variable(x, "scaled");
  float* capped = device.upload_variable(x, "capped");
  EXPECT_EQ(launch_adjust(nullptr, scaled, 3, 2.0f, 0.0f, 1.5f), 0);
  EXPECT_EQ(launch_adjust(nullptr, capped, 3, 1.0f, 2.0f, 0.0f), 0);
  EXPECT_EQ(device.download(scaled, 3), (std::vector<float>{-1.5f, 1.0f, 1.5f}));
  const std::vector<float> y = device.download(capped, 3);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(y[i], 2.0f * std::tanh(x[i] / 2.0f), 1e-6);
}

}  // namespace
}  // namespace tenon::cuda::test
