// What plugins are lent to read, where calls are looked at closely.
#include "core/contract/lent_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/contract/checked_attention.h"
#include "core/contract/checked_drafter.h"
#include "core/contract/checked_linear.h"
#include "core/contract/checked_sampler.h"

namespace tenon {
namespace {

using testing::HasSubstr;

std::vector<float> rising(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}
template <typename T>
uint64_t sum_of(const std::vector<T>& values) {
  return sum_of_bytes(values.data(), values.size() * sizeof(T));
}

TEST(SumOfBytes, differs_with_each_single_bit) {
  for (const size_t bytes : {1u, 4u, 63u, 64u, 65u, 200u}) {
    std::vector<unsigned char> row(bytes, 0x5a);
    const uint64_t before = sum_of(row);
    for (size_t bit = 0; bit < 8 * bytes; ++bit) {
      row[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
      EXPECT_NE(sum_of(row), before) << "bit " << bit << " of " << bytes << " bytes";
      row[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    }
    EXPECT_EQ(sum_of(row), before);
  }
}

TEST(SumOfBytes, differs_where_values_only_change_places) {
  std::vector<float> row = rising(1000);
  const uint64_t before = sum_of(row);
  std::swap(row[3], row[19]);  // of the same lane
  EXPECT_NE(sum_of(row), before);
  row = rising(1000);
  std::swap(row[3], row[4]);
  EXPECT_NE(sum_of(row), before);
  row = rising(1000);
  std::reverse(row.begin(), row.end());
  EXPECT_NE(sum_of(row), before);
}

TEST(SumOfBytes, differs_with_zeros_behind) {
  const std::vector<char> zeros(8, 0);
  EXPECT_NE(sum_of_bytes(zeros.data(), 4), sum_of_bytes(zeros.data(), 8));
}

TEST(LentRows, of_many_bytes_are_all_looked_at_in_some_call) {
  const size_t count = 5 * LentRows::kPartBytes / sizeof(float) + 7;
  std::vector<float> history = rising(count);
  LentRows lent;
  for (const size_t written : {size_t{0}, count / 2, count - 1}) {
    int seen = 0;
    for (int call = 0; call < 6; ++call) {
      lent.begin();
      lent.add_part(history.data(), count * sizeof(float));
      history[written] += 1;
      seen += lent.unchanged() ? 0 : 1;
    }
    EXPECT_EQ(seen, 1) << written;
  }
}

TEST(LentRows, of_a_matrix_are_all_looked_at_in_some_call_and_what_is_between_them_is_not) {
  constexpr size_t kRows = 40, kWidth = 1000, kStride = 1024;  // 4 rows at a time
  std::vector<float> x = rising(kRows * kStride);
  LentRows lent;
  for (const size_t row : {size_t{0}, kRows / 2, kRows - 1}) {
    int seen = 0;
    for (size_t call = 0; call < kRows; ++call) {
      lent.begin();
      lent.add_rows(x.data(), kWidth * sizeof(float), kStride * sizeof(float), kRows);
      x[row * kStride + kWidth] += 1;
      EXPECT_TRUE(lent.unchanged());
      x[row * kStride + kWidth - 1] += 1;
      seen += lent.unchanged() ? 0 : 1;
    }
    EXPECT_EQ(seen, 4) << row;
  }
}

// Does something with what it is lent, and answers soundly.
class CuriousSampler final : public Sampler {
 public:
  using Deed = std::function<void(const SampleRow&)>;
  Status begin(SeqId, const SamplingParams&, SeqId) noexcept override { return {}; }
  Status end(SeqId) noexcept override { return {}; }
  Status sample(std::span<const SampleRow> rows,
                std::span<SampleResult> results) noexcept override {
    for (size_t i = 0; i < rows.size(); ++i) results[i].token = 1;
    deed(rows.back());
    return {};
  }
  Status verify(std::span<const VerifyRows> rows,
                std::span<VerifyResult> results) noexcept override {
    results[0].tokens[0].token = 1;
    results[0].count = 1;
    deed(rows[0].rows.back());
    return {};
  }
  Status distribution(const SampleRow& row, std::span<float> probs) noexcept override {
    std::fill(probs.begin(), probs.end(), 0.0f);
    deed(row);
    return {};
  }

  Deed deed = [](const SampleRow&) {};
};

class LentToSamplers : public testing::Test {
 protected:
  static constexpr uint32_t kVocabulary = 100;
  SampleRow row() const {
    SampleRow row;
    row.logits = logits_.data();
    row.vocabulary = kVocabulary;
    row.history = history_;
    row.allowed = allowed_;
    return row;
  }
  std::string sample(CallChecks checks) {
    CheckedSampler checked(sampler_, "curious", checks);
    const SampleRow rows[] = {row(), row()};
    SampleResult results[2];
    return std::string(checked.sample(rows, results).message());
  }
  std::string verify() {
    CheckedSampler checked(sampler_, "curious", CallChecks::more);
    const SampleRow rows[] = {row(), row()};
    const TokenId drafts[] = {5};
    VerifyRows one;
    one.rows = rows;
    one.drafts = drafts;
    SampleResult tokens[2];
    VerifyResult result;
    result.tokens = tokens;
    return std::string(checked.verify({&one, 1}, {&result, 1}).message());
  }
  std::string distribution() {
    CheckedSampler checked(sampler_, "curious", CallChecks::more);
    std::vector<float> probs(kVocabulary);
    return std::string(checked.distribution(row(), probs).message());
  }

  std::vector<float> logits_ = rising(kVocabulary);
  std::vector<TokenId> history_ = std::vector<TokenId>(50, 7);
  uint64_t allowed_[2] = {~uint64_t{0}, ~uint64_t{0}};
  CuriousSampler sampler_;
};

constexpr char kWrote[] =
    " changed the logits or history that it was shown – expected that it only reads them: use "
    "another plugin";

TEST_F(LentToSamplers, may_be_read) {
  EXPECT_EQ(sample(CallChecks::more), "");
  EXPECT_EQ(verify(), "");
  EXPECT_EQ(distribution(), "");
}

TEST_F(LentToSamplers, are_looked_at_in_every_call_and_whatever_is_written) {
  const std::vector<CuriousSampler::Deed> deeds = {
      [](const SampleRow& row) { const_cast<float*>(row.logits)[kVocabulary - 1] += 1; },
      [](const SampleRow& row) {
        std::swap(const_cast<float*>(row.logits)[2], const_cast<float*>(row.logits)[3]);
      },
      [](const SampleRow& row) { ++const_cast<TokenId&>(row.history[0]); },
      [](const SampleRow& row) { const_cast<uint64_t*>(row.allowed)[1] ^= 1; }};
  for (const auto& deed : deeds) {
    sampler_.deed = deed;
    EXPECT_EQ(sample(CallChecks::more), std::string("sample") + kWrote);
    EXPECT_EQ(verify(), std::string("verify") + kWrote);
    EXPECT_EQ(distribution(), std::string("distribution") + kWrote);
    EXPECT_EQ(sample(CallChecks::usual), "") << "looked at where nobody asked for it";
  }
}

// Writes one number into the activations of each call.
class ScribblingLinear final : public LinearKernel {
 public:
  Status bind(const LinearLimits&) noexcept override { return {}; }
  EpilogueMask epilogues() const noexcept override { return epilogue_bit(Epilogue::store); }
  Status accepts(const WeightView&) const noexcept override { return {}; }
  uint64_t packed_bytes(const WeightView&) const noexcept override { return 64; }
  Status pack(const WeightView&, void*, Slice) noexcept override { return {}; }
  Status gather(const GatherCall&, Slice) noexcept override { return {}; }
  Preparation preparation(const WeightView& weight) const noexcept override {
    return {0, weight.k_in};
  }
  uint64_t prepared_bytes(Preparation, uint32_t rows) const noexcept override {
    return prepares ? 64 * rows : 0;
  }
  Status prepare(const PrepareCall& call, Slice slice) noexcept override {
    if (scribbles) write(call.x, call.rows * slice.index / slice.count * call.x_stride);
    return {};
  }
  Status run(std::span<const LinearJob> jobs, WorkRange, DeviceQueue) noexcept override {
    if (scribbles) write(jobs[0].prepared, 0);
    return {};
  }
  std::string_view numerics() const noexcept override { return "some"; }

  bool prepares = false, scribbles = false;

 private:
  static void write(const void* x, uint64_t at) {
    const_cast<float*>(static_cast<const float*>(x))[at] += 1;
  }
};

struct LinearAnswers {
  std::string prepare, run;
};
LinearAnswers call_linear(ScribblingLinear& kernel, CallChecks checks) {
  constexpr uint32_t kRows = 3, kWidth = 8;
  CheckedLinear checked(kernel, "x", checks);
  EXPECT_TRUE(checked.bind({.max_rows = kRows}).ok());
  EXPECT_TRUE(checked.accepts({.format = "f32", .name = "w", .n_out = 2, .k_in = kWidth}).ok());
  std::vector<float> x = rising(kRows * kWidth);
  PrepareCall prepare;
  prepare.preparation = {0, kWidth};
  prepare.x = x.data();
  prepare.x_stride = kWidth;
  prepare.rows = kRows;
  LinearJob job;
  job.k_in = kWidth;
  job.n_out = 2;
  job.prepared = x.data();
  job.x_stride = kWidth;
  job.x_rows = kRows;
  return {std::string(checked.prepare(prepare, {1, 2}).message()),
          std::string(checked.run({&job, 1}, {}, nullptr).message())};
}

TEST(LentToLinearKernels, activations_are_looked_at_where_they_are_read_as_they_are) {
  ScribblingLinear kernel;
  EXPECT_EQ(call_linear(kernel, CallChecks::more).run, "");
  kernel.scribbles = true;
  const LinearAnswers seen = call_linear(kernel, CallChecks::more);
  EXPECT_THAT(seen.prepare, HasSubstr("linear 'x': prepare changed the activations that it was"));
  EXPECT_THAT(seen.run, HasSubstr("linear 'x': run changed the activations, biases or factors"));
  EXPECT_EQ(call_linear(kernel, CallChecks::usual).run, "");
  // How its own form lies in memory is its own affair.
  kernel.prepares = true;
  EXPECT_EQ(call_linear(kernel, CallChecks::more).run, "");
}

class ScribblingAttention final : public AttentionKernel {
 public:
  Status bind(const AttentionBinding&) noexcept override { return {}; }
  uint64_t plan_bytes(GroupId) const noexcept override { return 64; }
  uint64_t workspace_bytes(GroupId) const noexcept override { return 64; }
  Status plan(const AttentionPlan&, KernelPlanOut&) noexcept override { return {}; }
  Status run(const AttentionCall& call, uint32_t, Slice) noexcept override {
    const void* const rows[] = {call.q, call.k, call.v};
    if (which < 3) const_cast<float*>(static_cast<const float*>(rows[which]))[at] += 1;
    return {};
  }
  std::string_view numerics() const noexcept override { return "some"; }

  size_t which = 3, at = 0;
};

TEST(LentToAttentionKernels, q_k_and_v_are_looked_at) {
  constexpr uint32_t kRows = 2;
  KvGroup group;
  group.kv_heads = 2;
  group.k_dim = 4;
  group.v_dim = 6;
  LayerShape layer;
  layer.query_heads = 4;
  ModelShape model;
  model.layer_count = model.group_count = 1;
  model.groups = &group;
  model.layers = &layer;
  static const GroupId groups[] = {0};
  AttentionBinding binding;
  binding.model = &model;
  binding.groups = groups;
  ScribblingAttention kernel;
  std::vector<float> q = rising(kRows * 16), k = rising(kRows * 8), v = rising(kRows * 12);
  AttentionCall call;
  call.q = q.data();
  call.k = k.data();
  call.v = v.data();
  call.padded_rows = kRows;
  CheckedAttention checked(kernel, "x", CallChecks::more);
  ASSERT_TRUE(checked.bind(binding).ok());
  EXPECT_TRUE(checked.run(call, 0, {}).ok());
  const size_t last[] = {q.size() - 1, k.size() - 1, v.size() - 1};
  for (kernel.which = 0; kernel.which < 3; ++kernel.which) {
    kernel.at = last[kernel.which];
    EXPECT_THAT(std::string(checked.run(call, 0, {}).message()),
                HasSubstr("run changed the q, k or v that it was shown"));
  }
  call.k = call.v = nullptr;  // a layer that shares K and V
  EXPECT_TRUE(checked.run(call, 0, {}).ok());
}

class ScribblingDrafter final : public Drafter {
 public:
  Status bind(const ModelShape&, HiddenLayersOut&) noexcept override { return {}; }
  Status begin(SeqId, SeqId) noexcept override { return {}; }
  Status end(SeqId) noexcept override { return {}; }
  Status offer(std::span<const DraftRequest> requests, std::span<uint32_t>) noexcept override {
    return write(requests[0].history);
  }
  Status draft(std::span<const DraftRequest> requests, std::span<DraftOut>) noexcept override {
    return write(requests[0].history);
  }
  Status accept(SeqId, std::span<const TokenId> history, uint32_t, uint32_t) noexcept override {
    return write(history);
  }
  Status measured(const DraftStepCost&) noexcept override { return {}; }
  Status observe(std::span<const HiddenView> hidden) noexcept override {
    const auto* states = static_cast<const float*>(hidden[0].states[0].data);
    const_cast<float*>(states)[5] += 1;
    return {};
  }

 private:
  static Status write(std::span<const TokenId> history) {
    ++const_cast<TokenId&>(history[0]);
    return {};
  }
};

TEST(LentToDrafters, histories_and_hidden_states_are_looked_at) {
  ScribblingDrafter drafter;
  CheckedDrafter checked(drafter, "x", 100, CallChecks::more);
  const std::vector<TokenId> history(20, 3);
  DraftRequest request;
  request.history = history;
  uint32_t offered = 0;
  DraftOut draft;
  EXPECT_THAT(std::string(checked.offer({&request, 1}, {&offered, 1}).message()),
              HasSubstr("offer changed the requests that it was shown"));
  EXPECT_THAT(std::string(checked.draft({&request, 1}, {&draft, 1}).message()),
              HasSubstr("draft changed the requests that it was shown"));
  EXPECT_THAT(std::string(checked.accept(1, history, 0, 0).message()),
              HasSubstr("accept changed the history that it was shown"));
  const std::vector<float> states = rising(8);
  TensorView view;
  view.data = states.data();
  view.shape[0] = 2;
  view.shape[1] = view.stride[0] = 4;
  HiddenView hidden;
  hidden.states = {&view, 1};
  EXPECT_THAT(std::string(checked.observe({&hidden, 1}).message()),
              HasSubstr("observe changed the hidden states that it was shown"));
}

}  // namespace
}  // namespace tenon
