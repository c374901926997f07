// What a calibration text changes: factors, errors, and layers that run one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/exec/ref/executor.h"
#include "core/quantize/layer_inputs.h"
#include "core/quantize/methods/awq.h"
#include "core/quantize/methods/bit_budget.h"
#include "core/quantize/methods/gptq.h"
#include "core/quantize/methods/linear_algebra.h"
#include "core/quantize/quantize_model.h"
#include "core/quantize/units.h"
#include "tests/support/models/tiny_model.h"
#include "tests/support/step_driver.h"
#include "tests/unit/quantize/threads.h"

namespace tenon::quantize {
namespace {

constexpr uint64_t kTestRows = 48, kTestColumns = 128, kSamples = 400;

std::vector<float> normal_values(uint64_t count, uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(bits);
  return values;
}

// Inputs whose columns depend on each other and differ in size.
InputStatistics some_inputs() {
  InputStatistics inputs;
  inputs.k = kTestColumns;
  inputs.rows = kSamples;
  inputs.samples = normal_values(kSamples * kTestColumns, 3);
  for (uint64_t i = 0; i < kSamples; ++i) {
    float* x = &inputs.samples[i * kTestColumns];
    for (uint64_t j = 1; j < kTestColumns; ++j) x[j] = 0.8f * x[j - 1] + 0.6f * x[j];
    for (uint64_t j = 0; j < kTestColumns; ++j) x[j] *= j % 16 == 5 ? 8.0f : 1.0f;
  }
  inputs.gram.resize(kTestColumns * kTestColumns);
  inputs.mean.resize(kTestColumns);
  add_gram(inputs.samples.data(), kSamples, kTestColumns, 0, kTestColumns, inputs.gram.data());
  for (uint64_t i = 0; i < inputs.samples.size(); ++i) {
    inputs.mean[i % kTestColumns] += std::fabs(inputs.samples[i]) / kSamples;
  }
  return inputs;
}

double error_of(const CodedMatrix& coded, const std::vector<float>& w,
                const InputStatistics& inputs) {
  std::vector<float> errors(w.size());
  for (uint64_t row = 0; row < coded.n; ++row) coded.values(row, &errors[row * coded.k]);
  for (size_t i = 0; i < w.size(); ++i) errors[i] -= w[i];
  return output_error(errors.data(), coded.n, inputs.samples.data(), kSamples, coded.k);
}

CodedMatrix nearest(const std::vector<float>& w, const GridOptions& grid) {
  CodedMatrix out(kTestRows, kTestColumns, grid);
  round_to_nearest(w.data(), 0, kTestRows, out);
  return out;
}

// a · b, or a · bᵀ, of [k, k].
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, uint64_t k,
                            bool transposed) {
  std::vector<double> out(k * k);
  for (uint64_t i = 0; i < k; ++i) {
    for (uint64_t j = 0; j < k; ++j) {
      for (uint64_t m = 0; m < k; ++m) {
        out[i * k + j] += a[i * k + m] * (transposed ? b[j * k + m] : b[m * k + j]);
      }
    }
  }
  return out;
}

// Within one block, and of several, the last of them smaller.
TEST(LinearAlgebra, the_factor_of_an_inverse_is_one_for_any_number_of_threads) {
  for (const uint64_t k : {20u, 300u}) {
    std::vector<double> h(k * k);
    const uint64_t samples = 3 * k;
    const std::vector<float> x = normal_values(samples * k, 7);
    add_gram(x.data(), samples, k, 0, k, h.data());
    for (uint64_t i = 0; i < k; ++i) {
      for (uint64_t j = i + 1; j < k; ++j) h[i * k + j] = h[j * k + i];
    }
    std::vector<float> u, by_one;
    ASSERT_TRUE(inverse_factor(h, k, u, *threads(3)));
    ASSERT_TRUE(inverse_factor(h, k, by_one, *threads(1)));
    EXPECT_EQ(u, by_one);
    // Uᵀ · U = h⁻¹, so U · h · Uᵀ = 1.
    const std::vector<double> factor(u.begin(), u.end());
    const std::vector<double> one = product(product(factor, h, k, false), factor, k, true);
    for (uint64_t i = 0; i < k; ++i) {
      for (uint64_t j = 0; j < k; ++j) {
        ASSERT_NEAR(one[i * k + j], i == j ? 1 : 0, 1e-4) << k << ": " << i << ", " << j;
        if (i > j) {
          ASSERT_EQ(u[i * k + j], 0);
        }
      }
    }
    h[0] = -1;
    EXPECT_FALSE(inverse_factor(h, k, u, *threads(3)));
    h[0] = 1e9;
    h[k * k - 1] = -1;
    EXPECT_FALSE(inverse_factor(h, k, u, *threads(3)));
  }
}

TEST(Gptq, errs_less_in_the_outputs_than_rounding_to_nearest) {
  const InputStatistics inputs = some_inputs();
  const std::vector<float> w = normal_values(kTestRows * kTestColumns, 5);
  const auto pool = threads(2);
  for (const uint32_t bits : {2u, 3u, 4u}) {
    for (const bool act_order : {false, true}) {
      const GridOptions grid{.bits = bits, .group = 32, .symmetric = false};
      const auto input = prepare_gptq(inputs.gram, kTestColumns,
                                      {.act_order = act_order, .sweeps = 0}, grid, *threads(2));
      ASSERT_TRUE(input.ok());
      std::vector<float> changed = w;
      const CodedMatrix coded = gptq(changed, kTestRows, *input, grid, *pool);
      const double error = error_of(coded, w, inputs);
      EXPECT_LT(error, 0.5 * error_of(nearest(w, grid), w, inputs))
          << bits << " bits, order " << act_order;
      const auto swept = prepare_gptq(inputs.gram, kTestColumns,
                                      {.act_order = act_order, .sweeps = 3}, grid, *threads(2));
      ASSERT_TRUE(swept.ok());
      changed = w;
      EXPECT_LT(error_of(gptq(changed, kTestRows, *swept, grid, *pool), w, inputs), 0.95 * error)
          << bits << " bits, order " << act_order;
    }
  }
}

TEST(Gptq, of_inputs_that_do_not_depend_on_each_other_rounds_to_nearest) {
  std::vector<double> h(kTestColumns * kTestColumns);
  for (uint64_t i = 0; i < kTestColumns; ++i) h[i * kTestColumns + i] = 3;
  const GridOptions grid{.bits = 4, .group = 64};
  const auto input = prepare_gptq(h, kTestColumns, {.sweeps = 0}, grid, *threads(2));
  ASSERT_TRUE(input.ok());
  const std::vector<float> w = normal_values(kTestRows * kTestColumns, 5);
  std::vector<float> changed = w;
  EXPECT_EQ(gptq(changed, kTestRows, *input, grid, *threads(1)).codes, nearest(w, grid).codes);
}

TEST(Gptq, does_not_depend_on_the_number_of_threads) {
  const InputStatistics inputs = some_inputs();
  const GridOptions grid{.bits = 3, .group = 32};
  const auto input =
      prepare_gptq(inputs.gram, kTestColumns, {.act_order = true}, grid, *threads(2));
  ASSERT_TRUE(input.ok());
  std::vector<float> one = normal_values(kTestRows * kTestColumns, 5), three = one;
  EXPECT_EQ(gptq(one, kTestRows, *input, grid, *threads(1)).codes,
            gptq(three, kTestRows, *input, grid, *threads(3)).codes);
}

TEST(Gptq, columns_that_nothing_reaches_become_zero) {
  InputStatistics inputs = some_inputs();
  for (uint64_t i = 0; i < kTestColumns; ++i) {
    inputs.gram[7 * kTestColumns + i] = inputs.gram[i * kTestColumns + 7] = 0;
  }
  const GridOptions grid{.bits = 4, .group = 32};
  const auto input = prepare_gptq(inputs.gram, kTestColumns, {}, grid, *threads(2));
  ASSERT_TRUE(input.ok());
  std::vector<float> w = normal_values(kTestRows * kTestColumns, 5), row(kTestColumns);
  const CodedMatrix coded = gptq(w, kTestRows, *input, grid, *threads(1));
  coded.values(3, row.data());
  EXPECT_EQ(row[7], 0);
}

TEST(Awq, factors_lower_the_error_of_the_outputs) {
  const InputStatistics inputs = some_inputs();
  const std::vector<float> w = normal_values(kTestRows * kTestColumns, 5);
  const GridOptions grid{.bits = 3, .group = 64, .symmetric = false, .least_zero = 0};
  const auto pool = threads(2);
  const std::vector<float> factors = search_factors({&w}, inputs, {}, grid, *pool);
  ASSERT_EQ(factors.size(), kTestColumns);
  std::vector<float> scaled = w;
  for (size_t i = 0; i < w.size(); ++i) scaled[i] *= factors[i % kTestColumns];
  const CodedMatrix coded = nearest(scaled, grid);
  std::vector<float> errors(w.size());
  for (uint64_t row = 0; row < kTestRows; ++row) coded.values(row, &errors[row * kTestColumns]);
  for (size_t i = 0; i < w.size(); ++i) errors[i] = errors[i] / factors[i % kTestColumns] - w[i];
  EXPECT_LT(output_error(errors.data(), kTestRows, inputs.samples.data(), kSamples, kTestColumns),
            0.9 * error_of(nearest(w, grid), w, inputs));
}

TEST(Awq, ranges_and_codes_lower_the_error_of_the_outputs) {
  const InputStatistics inputs = some_inputs();
  const std::vector<float> w = normal_values(kTestRows * kTestColumns, 5);
  for (const uint32_t bits : {3u, 4u}) {
    const GridOptions grid{.bits = bits, .group = 32, .symmetric = false, .least_zero = 0};
    const CodedMatrix coded =
        round_with_ranges(w, kTestRows, kTestColumns, inputs.gram, grid, *threads(2));
    EXPECT_LT(error_of(coded, w, inputs), 0.5 * error_of(nearest(w, grid), w, inputs)) << bits;
    const CodedMatrix again =
        round_with_ranges(w, kTestRows, kTestColumns, inputs.gram, grid, *threads(3));
    EXPECT_EQ(coded.codes, again.codes);
  }
}

TEST(Awq, of_inputs_that_do_not_depend_on_each_other_rounds_to_nearest) {
  std::vector<double> gram(kTestColumns * kTestColumns);
  for (uint64_t i = 0; i < kTestColumns; ++i) {
    gram[i * kTestColumns + i] = 1 + static_cast<double>(i % 7);
  }
  const std::vector<float> w = normal_values(kTestRows * kTestColumns, 5);
  const GridOptions grid{.bits = 4, .group = 64, .symmetric = false, .least_zero = 0};
  const CodedMatrix coded = round_with_ranges(w, kTestRows, kTestColumns, gram, grid, *threads(1));
  for (uint64_t i = 0; i < w.size(); ++i) {
    const Grid& own = coded.grids[i / 64];
    ASSERT_EQ(coded.codes[i], own.code(w[i], grid.most())) << i;
  }
}

TEST(Awq, heads_that_read_one_kv_head_share_their_factors) {
  const FactorLayout layout{.head_dim = 4, .heads_each = 2};
  EXPECT_EQ(layout.count(16), 8);
  EXPECT_EQ(layout.of(1), 1);
  EXPECT_EQ(layout.of(5), 1);  // head 1 reads KV head 0
  EXPECT_EQ(layout.of(9), 5);  // head 2 reads KV head 1
  EXPECT_EQ(layout.of(15), 7);
}

LayerValues values_of_layer(const Model& model, uint32_t layer) {
  LayerValues values;
  for (const Weight* weight : model.layers[layer].matrices()) {
    values[key_of(*weight)] = *values_of(*weight, *threads(1));
  }
  return values;
}

TEST(LayerInputs, layers_one_by_one_are_the_model) {
  test::TinyModelOptions options;
  options.config = test::tiny_config();
  const std::unique_ptr<Model> model = test::make_tiny_model(options);
  const uint32_t layers = static_cast<uint32_t>(model->layers.size());
  const std::vector<TokenId> window = test::some_tokens(16, model->plan.vocabulary);
  const auto pool = threads(2);
  auto inputs = LayerInputs::start(*model, {window, window}, *pool);
  ASSERT_TRUE(inputs.ok());
  for (uint32_t layer = 0; layer < layers; ++layer) {
    ASSERT_TRUE((*inputs)->advance(values_of_layer(*model, layer)).ok());
  }
  const auto executor = make_ref_executor();
  const ModelShapeStorage shape(model->plan, model->plan.context_tokens);
  test::StepDriver driver(*executor, *model, shape.shape(), {});
  driver.want_hidden({15}, {layers - 1});
  driver.feed(window, {16});
  const std::vector<float>& expected = driver.hidden()[0][0];
  const uint64_t hidden = model->plan.hidden;
  for (uint64_t i = 0; i < hidden; ++i) {
    EXPECT_NEAR((*inputs)->states()[15 * hidden + i], expected[i], 1e-4f);
    EXPECT_EQ((*inputs)->states()[31 * hidden + i], (*inputs)->states()[15 * hidden + i]);
  }
}

TEST(LayerInputs, sums_of_inputs_are_those_of_all_rows) {
  test::TinyModelOptions options;
  options.config = test::tiny_config();
  const std::unique_ptr<Model> model = test::make_tiny_model(options);
  const std::vector<TokenId> window = test::some_tokens(16, model->plan.vocabulary);
  const auto one = threads(1), three = threads(3);
  const InputSites sites = input_sites(model->plan, 0, model->layers[0]);
  ASSERT_EQ(sites.first.size(), 4);
  std::vector<std::vector<double>> grams;
  for (WorkerPool* pool : {one.get(), three.get()}) {
    auto inputs = LayerInputs::start(*model, {window, window, window, window}, *pool);
    ASSERT_TRUE(inputs.ok());
    const auto found = (*inputs)->observe(sites, 0, values_of_layer(*model, 0));
    ASSERT_TRUE(found.ok());
    EXPECT_EQ((*found)[0].rows, 64);
    EXPECT_EQ((*found)[1].rows, 0);
    grams.push_back((*found)[0].gram);
    double trace = 0, samples = 0;
    for (uint64_t i = 0; i < (*found)[0].k; ++i) trace += grams.back()[i * ((*found)[0].k + 1)];
    for (const float value : (*found)[0].samples) samples += double{value} * value;
    EXPECT_NEAR(samples / trace, 1, 1e-5);  // so few rows are all samples
  }
  EXPECT_EQ(grams[0], grams[1]);
}

TEST(BitBudget, buys_what_saves_most_for_a_bit) {
  const std::vector<std::vector<BitChoice>> matrices = {
      {{2, 200, 1.0}, {4, 400, 0.5}, {8, 800, 0.4}},
      {{2, 200, 9.0}, {4, 400, 1.0}, {8, 800, 0.1}},
      {{2, 20, 0.3}, {4, 40, 0.1}, {8, 80, 0.0}}};
  EXPECT_THAT(spend_bits(matrices, 420), testing::ElementsAre(0, 0, 0));
  EXPECT_THAT(spend_bits(matrices, 640), testing::ElementsAre(0, 1, 1));
  EXPECT_THAT(spend_bits(matrices, 860), testing::ElementsAre(1, 1, 1));
  EXPECT_THAT(spend_bits(matrices, 5000), testing::ElementsAre(2, 2, 2));
  EXPECT_THAT(spend_bits(matrices, 10), testing::ElementsAre(0, 0, 0));
}

TEST(CalibrationText, that_is_too_short_is_refused) {
  const auto windows = calibration_windows(std::vector<TokenId>(100), 32, 128);
  ASSERT_FALSE(windows.ok());
  EXPECT_EQ(message_of(windows.status()),
            "the calibration text has 100 tokens, 3 windows of 32; expected at least 4 windows – "
            "name a longer text, or give a smaller --context");
  EXPECT_EQ(calibration_windows(std::vector<TokenId>(1000), 32, 5)->size(), 5);
}

}  // namespace
}  // namespace tenon::quantize
