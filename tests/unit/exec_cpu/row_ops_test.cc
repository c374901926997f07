#include "core/exec/cpu/products/row_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include "core/base/machine/cpu_features.h"

namespace tenon {
namespace {

std::vector<float> wave(size_t count, float phase) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i) * 0.7f + phase);
  return values;
}

class RowOpsTest : public testing::TestWithParam<CpuFeatures> {
 protected:
  void SetUp() override {
    if (!detect_cpu_features().has_all(GetParam())) GTEST_SKIP() << "not this processor";
  }
  const RowOps& ops() const { return row_ops(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(InstructionSets, RowOpsTest,
                         testing::Values(kCpuPortable, kCpuAvx2, kCpuAvx512),
                         [](const auto& test) { return std::string(cpu_isa_name(test.param)); });

TEST_P(RowOpsTest, norms_agree_with_the_definition_at_every_width) {
  for (uint32_t count = 1; count <= 200; ++count) {
    const std::vector<float> x = wave(count, 0.3f);
    const std::vector<float> scale = wave(count, 1.1f);
    double squares = 0;
    for (const float value : x) squares += double{value} * value;
    std::vector<float> out(count + 1, -7.0f);
    ops().rms_norm(x.data(), scale.data(), count, 1e-5f, out.data());
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_NEAR(out[i], x[i] * scale[i] / std::sqrt(squares / count + 1e-5), 2e-6) << count;
    }
    EXPECT_EQ(out[count], -7.0f) << "nothing is written behind the end";
  }
}

TEST_P(RowOpsTest, every_instruction_set_gives_the_same_bits) {
  for (const uint32_t count : {1u, 15u, 16u, 64u, 97u, 576u, 2048u}) {
    const std::vector<float> scale = wave(count, 2.0f);
    std::vector<float> actual = wave(count, 0.1f);
    std::vector<float> expected = actual;
    ops().rms_norm(actual.data(), scale.data(), count, 1e-6f, actual.data());
    row_ops(kCpuPortable).rms_norm(expected.data(), scale.data(), count, 1e-6f, expected.data());
    EXPECT_EQ(actual, expected) << count;
  }
}

TEST_P(RowOpsTest, rotation_turns_pairs_of_halves) {
  for (const uint32_t half : {1u, 3u, 16u, 20u, 32u, 64u}) {
    const std::vector<float> cosine = wave(half, 0.5f);
    const std::vector<float> sine = wave(half, 1.5f);
    const std::vector<float> before = wave(2 * half, 0.0f);
    std::vector<float> head = before;
    ops().rotate_halves(cosine.data(), sine.data(), half, head.data());
    for (uint32_t i = 0; i < half; ++i) {
      EXPECT_EQ(head[i], before[i] * cosine[i] - before[half + i] * sine[i]);
      EXPECT_EQ(head[half + i], before[half + i] * cosine[i] + before[i] * sine[i]);
    }
  }
}

TEST_P(RowOpsTest, products_are_added_to_what_is_there) {
  std::vector<float> y = {1.0f, -2.0f, 0.0f};
  const std::vector<float> p = {0.5f, 2.0f, -7.0f};
  ops().add(y.data(), p.data(), 3);
  EXPECT_EQ(y, (std::vector<float>{1.5f, 0.0f, -7.0f}));
}

TEST_P(RowOpsTest, gelu_gates_by_its_approximation_with_tanh) {
  std::vector<float> y = wave(40, 0.2f);
  for (float& value : y) value *= 6.0f;
  const std::vector<float> before = y;
  const std::vector<float> p = wave(40, 1.3f);
  ops().gelu_mul(y.data(), p.data(), 40);
  for (size_t i = 0; i < y.size(); ++i) {
    const double v = before[i];
    const double gelu =
        0.5 * v * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
    EXPECT_NEAR(y[i], gelu * p[i], 2e-6) << v;
  }
}

// 4,003 values from -limit to limit, denser near 0, and what lies beyond every bound.
std::vector<float> everywhere(double limit) {
  std::vector<float> values;
  for (int i = -2000; i <= 2000; ++i) {
    const double at = i / 2000.0;
    values.push_back(static_cast<float>(limit * at * at * at));
  }
  values.insert(values.end(), {-1e6f, 1e6f});
  return values;
}

struct Curve {
  const char* name;
  double limit;
  // Of the largest of 1, |x| and the result.
  double error;
  std::function<double(double)> expected;
  std::function<void(const RowOps&, float*, uint32_t)> run;
};

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

std::vector<Curve> curves() {
  static const std::vector<float> kOnes(5000, 1.0f);
  static const Xielu kXielu = {.alpha_p = 0.8f, .alpha_n = 0.7f, .beta = 0.5f, .eps = -1e-6f};
  const auto activation = [](Activation kind) {
    return [kind](const RowOps& ops, float* y, uint32_t n) { ops.activate(kind, y, nullptr, n); };
  };
  const double root = std::sqrt(2 / std::acos(-1.0));
  const auto gelu_tanh = [root](double x) {
    return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
  };
  const auto silu = [](double x) { return x * logistic(x); };
  return {{"silu", 100, 4e-7, silu, activation(Activation::silu)},
          {"gelu", 20, 4e-7, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); },
           activation(Activation::gelu)},
          {"gelu_tanh", 20, 8e-7, gelu_tanh, activation(Activation::gelu_tanh)},
          {"relu", 20, 0, [](double x) { return std::max(x, 0.0); }, activation(Activation::relu)},
          {"relu_squared", 20, 1e-7, [](double x) { return x > 0 ? x * x : 0.0; },
           activation(Activation::relu_squared)},
          {"silu_mul", 100, 4e-7, silu,
           [](const RowOps& ops, float* y, uint32_t n) { ops.silu_mul(y, kOnes.data(), n); }},
          {"gelu_mul", 20, 8e-7, gelu_tanh,
           [](const RowOps& ops, float* y, uint32_t n) { ops.gelu_mul(y, kOnes.data(), n); }},
          {"sigmoid_mul", 100, 4e-7, logistic,
           [](const RowOps& ops, float* y, uint32_t n) {
             const std::vector<float> x(y, y + n);
             std::fill(y, y + n, 1.0f);
             ops.sigmoid_mul(y, x.data(), n);
           }},
          {"cap", 200, 3e-6, [](double x) { return 30 * std::tanh(x * 1.5 / 30); },
           [](const RowOps& ops, float* y, uint32_t n) { ops.scale_and_cap(y, 1.5f, 30.0f, n); }},
          {"xielu", 30, 4e-7,
           [](double x) {
             const double curved = x > 0 ? double{kXielu.alpha_p} * x * x
                                         : kXielu.alpha_n * (std::expm1(std::min(x, -1e-6)) - x);
             return curved + kXielu.beta * x;
           },
           [](const RowOps& ops, float* y, uint32_t n) { ops.xielu(kXielu, y, n); }},
          {"clamped_swiglu", 100, 2e-6,
           [](double x) { return std::min(x, 7.0) * logistic(1.702 * std::min(x, 7.0)) * 2; },
           [](const RowOps& ops, float* y, uint32_t n) {
             ops.clamped_swiglu(y, kOnes.data(), 1.702f, 7.0f, n);
           }}};
}

TEST_P(RowOpsTest, curves_are_those_of_the_definitions) {
  for (const Curve& curve : curves()) {
    const std::vector<float> x = everywhere(curve.limit);
    std::vector<float> y = x;
    curve.run(ops(), y.data(), static_cast<uint32_t>(y.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = curve.expected(x[i]);
      const double most = std::max({1.0, std::abs(double{x[i]}), std::abs(expected)});
      EXPECT_NEAR(y[i], expected, curve.error * most) << curve.name << " of " << x[i];
    }
  }
}

TEST_P(RowOpsTest, curves_have_the_same_bits_everywhere) {
  for (const Curve& curve : curves()) {
    const std::vector<float> x = everywhere(curve.limit);
    std::vector<float> expected = x;
    curve.run(row_ops(kCpuPortable), expected.data(), static_cast<uint32_t>(x.size()));
    for (const uint32_t count : {1u, 3u, 4u, 7u, 15u, 16u, 17u, 4003u}) {
      std::vector<float> y = x;
      curve.run(ops(), y.data(), count);
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(y[i], i < count ? expected[i] : x[i]) << curve.name << " " << count << " " << i;
      }
    }
  }
}

TEST_P(RowOpsTest, a_value_that_is_no_number_stays_none) {
  for (const Curve& curve : curves()) {
    if (std::string_view(curve.name).starts_with("relu")) continue;
    std::vector<float> y(19, std::nanf(""));
    y[3] = 1.0f;
    curve.run(ops(), y.data(), 19);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i != 3) << curve.name;
  }
}

TEST_P(RowOpsTest, the_gate_is_silu) {
  std::vector<float> gate = {0.0f, 1.0f, -1.0f, 100.0f, -100.0f};
  const std::vector<float> up = {3.0f, 2.0f, 2.0f, 2.0f, 2.0f};
  ops().silu_mul(gate.data(), up.data(), 5);
  EXPECT_EQ(gate[0], 0.0f);
  EXPECT_NEAR(gate[1], 2 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(gate[2], -2 / (1 + std::exp(1.0)), 1e-6);
  EXPECT_EQ(gate[3], 200.0f);
  EXPECT_NEAR(gate[4], 0.0f, 1e-30);
}

TEST_P(RowOpsTest, a_clamped_gate_stops_at_its_limit) {
  std::vector<float> gate = {0.0f, 1.0f, 9.0f, -9.0f};
  const std::vector<float> up = {5.0f, 0.5f, 9.0f, -9.0f};
  ops().clamped_swiglu(gate.data(), up.data(), 1.5f, 2.0f, 4);
  EXPECT_EQ(gate[0], 0.0f);
  EXPECT_NEAR(gate[1], 1.5 / (1 + std::exp(-1.5)), 1e-6);
  EXPECT_NEAR(gate[2], 2 * 3 / (1 + std::exp(-3.0)), 1e-5);
  EXPECT_NEAR(gate[3], -9 * -1 / (1 + std::exp(13.5)), 1e-9);
}

TEST_P(RowOpsTest, a_limited_gate_stops_after_its_activation) {
  std::vector<float> gate = {0.0f, 1.0f, 9.0f, -9.0f};
  const std::vector<float> up = {5.0f, 0.5f, 9.0f, -9.0f};
  ops().limited_gate(Activation::silu, gate.data(), up.data(), 2.0f, 4);
  EXPECT_EQ(gate[0], 0.0f);
  EXPECT_NEAR(gate[1], 0.5 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_EQ(gate[2], 4.0f);
  EXPECT_NEAR(gate[3], -2 * -9 / (1 + std::exp(9.0)), 1e-6);
}

TEST_P(RowOpsTest, scaled_rows_are_added_as_one_by_one) {
  for (const uint32_t count : {1u, 15u, 16u, 33u, 100u}) {
    std::vector<float> y = wave(count, 0.2f), expected = y;
    const std::vector<float> p = wave(count, 1.2f);
    for (uint32_t i = 0; i < count; ++i) expected[i] += 0.3f * p[i];
    ops().add_scaled(y.data(), p.data(), 0.3f, count);
    EXPECT_EQ(y, expected) << count;
  }
}

TEST_P(RowOpsTest, clipped_values_stay_within_the_limit) {
  std::vector<float> values = {-3.0f, -0.5f, 0.0f, 0.7f, 8.0f};
  ops().clip(values.data(), 0.7f, 5);
  EXPECT_EQ(values, (std::vector<float>{-0.7f, -0.5f, 0.0f, 0.7f, 0.7f}));
}

}  // namespace
}  // namespace tenon
