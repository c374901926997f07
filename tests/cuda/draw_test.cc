// Tokens that are drawn on the device are those of the sampler `standard`, which says that it lets
// others draw.
#include <gtest/gtest.h>
#include <tenon/sampler.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/answers/row_draws.h"
#include "core/exec/cuda/step/draws.h"
#include "core/request/sampling_keys.h"
#include "tests/cuda/rig/emulated_device.h"
#include "tests/cuda/rig/on_device.h"
#include "tests/fake_device/rig/loaded_plugin.h"

namespace tenon::cuda::test {
namespace {

// How a row of logits comes about.
enum class Shape : uint8_t { flat, peaked, ties, odd };

std::vector<float> a_row(uint32_t vocabulary, Shape shape, Numbers& numbers) {
  std::vector<float> row = numbers.many(vocabulary);
  for (float& x : row) {
    if (shape == Shape::peaked) x = 12.0f * x * x * x;
    if (shape == Shape::ties) x = std::round(4.0f * x);
    if (shape == Shape::odd) x *= 30.0f;
  }
  if (shape != Shape::odd) return row;
  constexpr float kOdd[] = {NAN, -INFINITY, 0.0f, -0.0f, 1e-42f, -1e-42f};
  for (uint32_t i = 0; i < vocabulary; i += 3) row[i] = kOdd[numbers.below(6)];
  if (numbers.below(3) == 0) row[numbers.below(vocabulary)] = INFINITY;
  return row;
}

// NaN comes first.
bool below(float a, float b) {
  return std::isnan(a) ? !std::isnan(b) : a < b;
}

class CudaDrawTest : public testing::Test {
 protected:
  CudaDrawTest() : sampler_("sampler", "standard") {
    EXPECT_EQ(sampler_.error(), "");
    const PluginHandle& handle = sampler_.handle();
    const auto* order = static_cast<const std::string_view*>(
        handle.descriptor()->extension(handle.instance(), kRowDraws));
    EXPECT_NE(order, nullptr);
    if (order != nullptr) order_ = *parse_sampling_order(*order);
  }

  // What the sampler draws from each of the rows, with positions as keys.
  std::vector<TokenId> of_sampler(const Request& request, const std::vector<float>& logits,
                                  uint32_t rows) {
    SamplingParams params = request.sampling;
    params.order = request.lists.order;
    EXPECT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
    const auto vocabulary = static_cast<uint32_t>(logits.size() / rows);
    std::vector<SampleRow> asked(rows);
    for (uint32_t i = 0; i < rows; ++i) {
      asked[i].seq = 1;
      asked[i].logits = &logits[size_t{i} * vocabulary];
      asked[i].vocabulary = vocabulary;
      asked[i].key = {params.seed, 2, i};
    }
    std::vector<SampleResult> results(rows);
    EXPECT_TRUE(sampler_->sample(asked, results).ok());
    EXPECT_TRUE(sampler_->end(1).ok());
    std::vector<TokenId> tokens;
    for (const SampleResult& result : results) tokens.push_back(result.token);
    return tokens;
  }

  std::vector<TokenId> of_device(const Request& request, const std::vector<float>& logits,
                                 uint32_t rows, uint64_t seed) {
    EmulatedDevice device(seed);
    DrawCall call = {};
    call.vocabulary = static_cast<uint32_t>(logits.size() / rows);
    call.rows = rows;
    call.logits = device.upload(logits, "logits");
    std::vector<DrawRow> draws;
    for (uint32_t i = 0; i < rows; ++i) {
      auto draw = row_draw_of(request, order_, {request.sampling.seed, 2, i});
      EXPECT_TRUE(draw.has_value());
      draw->logits_row = i;
      draws.push_back(draw_row(*draw));
    }
    call.draws = device.upload(draws, "draws");
    call.tokens = device.make<int32_t>(rows, "tokens");
    call.weights = device.make<double>(uint64_t{rows} * draw_blocks(call.vocabulary), "weights");
    EXPECT_EQ(launch_draw(nullptr, call), 0);
    return device.download(call.tokens, rows);
  }

  // Rows that the device leaves undrawn count as wrong unless they are few.
  void expect_equal(const Request& request, uint32_t vocabulary, Shape shape) {
    constexpr uint32_t kRows = 8;
    SCOPED_TRACE("vocabulary " + std::to_string(vocabulary) + ", shape " +
                 std::to_string(static_cast<int>(shape)));
    Numbers numbers(vocabulary + static_cast<uint32_t>(shape));
    std::vector<float> logits;
    for (uint32_t i = 0; i < kRows; ++i) {
      const std::vector<float> row = a_row(vocabulary, shape, numbers);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const auto expected = of_sampler(request, logits, kRows);
    const auto drawn = of_device(request, logits, kRows, vocabulary);
    for (uint32_t i = 0; i < kRows; ++i) {
      if (drawn[i] == kNoToken) {
        const auto first = logits.begin() + i * vocabulary;
        const float highest = *std::max_element(first, first + vocabulary, below);
        const bool left = expected[i] == kNoToken || highest == INFINITY;
        undrawn_ += left ? 0 : 1;
        continue;
      }
      EXPECT_EQ(drawn[i], expected[i]) << "row " << i;
      ++drawn_;
    }
  }

  void expect_equal(const Request& request) {
    for (const uint32_t vocabulary : {1u, 7u, 64u, 130u, 700u}) {
      for (const Shape shape : {Shape::flat, Shape::peaked, Shape::ties, Shape::odd}) {
        expect_equal(request, vocabulary, shape);
      }
    }
  }

  LoadedPlugin<Sampler> sampler_;
  std::vector<SamplingStage> order_;
  uint32_t drawn_ = 0, undrawn_ = 0;
};

TEST_F(CudaDrawTest, greedy_rows_are_those_of_the_sampler) {
  Request request;
  request.sampling.temperature = 0.0f;
  request.sampling.top_k = 3;
  expect_equal(request);
  EXPECT_EQ(undrawn_, 0u);
}

TEST_F(CudaDrawTest, rows_with_a_temperature_are_those_of_the_sampler) {
  for (const float temperature : {1.0f, 0.7f, 1.9f, 1e-6f}) {
    Request request;
    request.sampling.temperature = temperature;
    request.sampling.seed = 77;
    expect_equal(request);
  }
  EXPECT_EQ(undrawn_, 0u);
}

TEST_F(CudaDrawTest, rows_that_are_cut_are_those_of_the_sampler) {
  for (const uint32_t top_k : {0u, 1u, 5u, 200u}) {
    for (const float top_p : {1.0f, 0.9f, 0.3f}) {
      for (const float min_p : {0.0f, 0.2f}) {
        Request request;
        request.sampling.temperature = 0.8f;
        request.sampling.top_k = top_k;
        request.sampling.top_p = top_p;
        request.sampling.min_p = min_p;
        request.sampling.seed = top_k + 1;
        expect_equal(request, 130, Shape::peaked);
        expect_equal(request, 130, Shape::ties);
        expect_equal(request, 500, Shape::peaked);
        expect_equal(request, 500, Shape::odd);
      }
    }
  }
  EXPECT_GT(drawn_, 20 * undrawn_);
}

TEST_F(CudaDrawTest, rows_with_an_infinite_logit_are_left_to_the_sampler) {
  for (const float temperature : {0.0f, 0.8f}) {
    Request request;
    request.sampling.temperature = temperature;
    std::vector<float> logits(130, INFINITY);
    EXPECT_EQ(of_sampler(request, logits, 1)[0], kNoToken);
    EXPECT_EQ(of_device(request, logits, 1, 3)[0], kNoToken);
    logits[5] = 1.0f;
    EXPECT_NE(of_sampler(request, logits, 1)[0], kNoToken);
    EXPECT_EQ(of_device(request, logits, 1, 3)[0], kNoToken);
  }
}

TEST_F(CudaDrawTest, stages_count_in_the_order_that_a_request_names) {
  Request request;
  request.sampling.temperature = 3.0f;
  request.sampling.top_k = 40;
  request.sampling.top_p = 0.8f;
  request.sampling.min_p = 0.05f;
  request.lists.order = {SamplingStage::min_p, SamplingStage::top_p, SamplingStage::temperature,
                         SamplingStage::top_k};
  expect_equal(request, 500, Shape::peaked);
  const uint32_t drawn = drawn_;
  request.lists.order = {SamplingStage::temperature};
  expect_equal(request, 500, Shape::peaked);
  EXPECT_GT(drawn, 5u);
  EXPECT_EQ(undrawn_, 0u);
}

TEST_F(CudaDrawTest, flat_rows_whose_top_p_needs_more_than_the_first_tokens_are_left) {
  Request request;
  request.sampling.top_p = 0.9f;
  expect_equal(request, 700, Shape::flat);
  EXPECT_EQ(drawn_, 0u);
  EXPECT_GT(undrawn_, 0u);
}

TEST_F(CudaDrawTest, what_looks_back_or_changes_logits_is_the_samplers) {
  const auto refused = [&](const std::function<void(Request&)>& set) {
    Request request;
    set(request);
    return !row_draw_of(request, order_, {}).has_value();
  };
  EXPECT_FALSE(refused([](Request&) {}));
  EXPECT_TRUE(refused([](Request& r) { r.sampling.repetition_penalty = 1.1f; }));
  EXPECT_TRUE(refused([](Request& r) { r.sampling.logprobs = 1; }));
  EXPECT_TRUE(refused([](Request& r) { r.sampling.typical_p = 0.9f; }));
  EXPECT_TRUE(refused([](Request& r) { r.sampling.xtc_probability = 0.5f; }));
  EXPECT_TRUE(refused([](Request& r) { r.sampling.top_n_sigma = 1.0f; }));
  EXPECT_TRUE(refused([](Request& r) { r.sampling.dynamic_temperature_range = 0.5f; }));
  EXPECT_TRUE(refused([](Request& r) { r.sampling.mirostat = 2; }));
  EXPECT_TRUE(refused([](Request& r) { r.sampling.watermark_delta = 1.0f; }));
  EXPECT_TRUE(refused([](Request& r) { r.lists.logit_bias = {{3, 1.0f}}; }));
  EXPECT_TRUE(refused([](Request& r) { r.lists.allowed_tokens = {3}; }));
  EXPECT_TRUE(refused([](Request& r) { r.lists.bad_words = {{3}}; }));
}

// An executor that is asked to draw in each of its steps.
class Drawing final : public Executor {
 public:
  explicit Drawing(Executor& inner) : inner_(inner) {}
  std::string_view name() const override { return inner_.name(); }
  std::span<const Fact> provides() const override { return inner_.provides(); }
  std::span<const Fact> requirements() const override { return inner_.requirements(); }
  bool uses_kernels() const override { return inner_.uses_kernels(); }
  uint32_t workers() const override { return inner_.workers(); }
  Status load(const ExecutorSetup& setup) override { return inner_.load(setup); }
  Status apply(std::span<const KvMove> moves) override { return inner_.apply(moves); }
  Status launch(const BatchView& batch) override {
    inner_.draw(draws);
    return inner_.launch(batch);
  }
  Result<StepOutput> collect(uint64_t step_id) override {
    Result<StepOutput> output = inner_.collect(step_id);
    if (output.ok()) drawn.assign(output->drawn.begin(), output->drawn.end());
    return output;
  }
  std::string numerics() const override { return inner_.numerics(); }
  uint64_t weight_bytes() const override { return inner_.weight_bytes(); }
  uint64_t kv_bytes() const override { return inner_.kv_bytes(); }

  std::vector<RowDraw> draws;
  std::vector<TokenId> drawn;

 private:
  Executor& inner_;
};

TEST(CudaDrawnRows, rows_that_are_left_and_rows_that_nobody_asked_for_bring_their_logits) {
  const auto model = open_golden("models/llama_gqa");
  ASSERT_NE(model, nullptr);
  const ModelShapeStorage shape(model->plan, 64);
  const auto tokens = some_tokens(5, model->plan.vocabulary, 3);
  OnDevice plain(*model, shape.shape());
  const Logits expected = plain.steps.feed(tokens, {5});
  const auto driver = std::make_shared<TestDriver>();
  const auto executor = make_cuda_executor(driver);
  Drawing drawing(*executor);
  StepDriver steps(drawing, *model, shape.shape(), {});
  RowDraw greedy, unsure;
  greedy.logits_row = 1;
  greedy.greedy = true;
  // All weights are 1, and two of them are just what is wanted.
  unsure.logits_row = 3;
  unsure.cut_count = 1;
  unsure.cuts[0] = {CutKind::top_p, 1e-30f, 2.0 / model->plan.vocabulary};
  drawing.draws = {greedy, unsure};
  const Logits got = steps.feed(tokens, {5});
  const auto best = std::ranges::max_element(expected[1]) - expected[1].begin();
  const auto token = static_cast<TokenId>(best);
  EXPECT_EQ(drawing.drawn, (std::vector<TokenId>{kNoToken, token, kNoToken, kNoToken, kNoToken}));
  for (const size_t row : {0u, 2u, 3u, 4u}) EXPECT_EQ(got[row], expected[row]) << row;
  drawing.draws = {};
  EXPECT_EQ(steps.feed(tokens, {5}), expected) << "a draw was for one step";
  drawing.draws = {unsure, greedy};
  const auto refused = steps.try_step({{steps.begin(), tokens}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(std::string(refused.status().message()),
            "a draw from row 1 with 0 cuts; expected rising rows below 5, and at most 3");
}

}  // namespace
}  // namespace tenon::cuda::test
