// A second model that continues from hidden states: what a drafter gives with its histories enters
// that model's rows.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

constexpr uint32_t kWidth = 3;

void input_of(TokenId token, uint32_t position, float* out) {
  for (uint32_t i = 0; i < kWidth; ++i) {
    out[i] = static_cast<float>(static_cast<uint32_t>(token) * 31 + position * 7 + i);
  }
}

// The second model's logits after a history whose every token brought its input.
std::vector<float> expected_logits(const ToyModel& model, std::span<const TokenId> history) {
  uint64_t state = 0;
  for (uint32_t p = 0; p < history.size(); ++p) {
    uint64_t entry = ToyModel::entry(history[p], p);
    float input[kWidth];
    input_of(history[p], p, input);
    for (const float value : input) {
      entry = ToyModel::chain(entry, static_cast<uint64_t>(value)) | 1ull << 63;
    }
    state = ToyModel::chain(state, entry);
  }
  std::vector<float> logits(model.vocabulary);
  model.logits(state, logits.data());
  return logits;
}

// Drafts two branches one after the other, each with inputs for what is not computed yet, and holds
// what comes back against the model.
class FeedingDrafter final : public Drafter {
 public:
  explicit FeedingDrafter(ToyModel model) : model_(std::move(model)) {}
  Status bind(const ModelShape&, HiddenLayersOut&) noexcept override { return {}; }
  Status begin(SeqId, SeqId) noexcept override { return {}; }
  Status end(SeqId) noexcept override { return {}; }
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override {
    for (size_t i = 0; i < requests.size(); ++i) offered[i] = std::min(3u, requests[i].max_tokens);
    return {};
  }
  Status draft(std::span<const DraftRequest> requests,
               std::span<DraftOut> drafts) noexcept override {
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].max_tokens < 3) continue;
      for (const TokenId first : {4, 5, 4}) {
        std::vector<TokenId> history(requests[i].history.begin(), requests[i].history.end());
        history.push_back(first);
        if (Status status = ask(requests[i].seq, history); !status.ok()) return status;
        history.push_back(6);
        if (Status status = ask(requests[i].seq, history); !status.ok()) return status;
      }
      drafts[i].tokens[drafts[i].count++] = 4;
    }
    return {};
  }
  Status accept(SeqId, std::span<const TokenId>, uint32_t, uint32_t) noexcept override {
    return {};
  }
  Status measured(const DraftStepCost&) noexcept override { return {}; }
  Status observe(std::span<const HiddenView>) noexcept override { return {}; }

  ModelRunner* runner = nullptr;
  uint64_t asked = 0;

 private:
  Status ask(SeqId seq, std::span<const TokenId> history) {
    const uint32_t known =
        std::min(runner->computed(seq, history), static_cast<uint32_t>(history.size()) - 1);
    std::vector<float> inputs((history.size() - known) * kWidth);
    for (uint32_t p = known; p < history.size(); ++p) {
      input_of(history[p], p, inputs.data() + (p - known) * kWidth);
    }
    RunnerRow row;
    row.seq = seq;
    row.history = history;
    row.hidden = {inputs.data(),    DType::f32, {}, 2, {history.size() - known, kWidth, 1, 1},
                  {kWidth, 1, 1, 1}};
    const float* logits = nullptr;
    const float* hidden = nullptr;
    if (Status status = runner->forward({&row, 1}, {&logits, 1}, {&hidden, 1}); !status.ok()) {
      return status;
    }
    const std::vector<float> expected = expected_logits(model_, history);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), logits)) << "of " << history.size();
    EXPECT_NE(hidden, nullptr);
    ++asked;
    return {};
  }

  ToyModel model_;
};

TEST(RunnerInputs, enter_the_rows_of_the_second_model_whatever_branch_was_asked_for_before) {
  RigOptions options;
  options.second_model = ToyModel{options.vocabulary, 0, 0, {}, false};
  FeedingDrafter drafter(*options.second_model);
  options.drafter = &drafter;
  Rig rig(options);
  drafter.runner = &rig.runner();
  rig.submit(greedy_request({1, 2, 3}, 20));
  rig.submit(greedy_request(std::vector<TokenId>(20, 7), 20));
  rig.run();
  EXPECT_EQ(rig.engine().last_fault(), "");
  EXPECT_GT(drafter.asked, 20u);
}

TEST(RunnerInputs, that_are_missing_are_refused_in_words) {
  RigOptions options;
  options.second_model = ToyModel{options.vocabulary, 0, 0, {}, false};
  class Forgetful final : public Drafter {
   public:
    Status bind(const ModelShape&, HiddenLayersOut&) noexcept override { return {}; }
    Status begin(SeqId, SeqId) noexcept override { return {}; }
    Status end(SeqId) noexcept override { return {}; }
    Status offer(std::span<const DraftRequest>, std::span<uint32_t> offered) noexcept override {
      return std::fill(offered.begin(), offered.end(), 1), Status();
    }
    Status draft(std::span<const DraftRequest> requests, std::span<DraftOut>) noexcept override {
      const float input[kWidth] = {};
      RunnerRow row;
      row.seq = requests[0].seq;
      row.history = requests[0].history;
      row.hidden = {input, DType::f32, {}, 2, {1, kWidth, 1, 1}, {kWidth, 1, 1, 1}};
      const float* logits = nullptr;
      return runner->forward({&row, 1}, {&logits, 1}, {});
    }
    Status accept(SeqId, std::span<const TokenId>, uint32_t, uint32_t) noexcept override {
      return {};
    }
    Status measured(const DraftStepCost&) noexcept override { return {}; }
    Status observe(std::span<const HiddenView>) noexcept override { return {}; }
    ModelRunner* runner = nullptr;
  } drafter;
  options.drafter = &drafter;
  Rig rig(options);
  drafter.runner = &rig.runner();
  rig.submit(greedy_request({1, 2, 3}, 4));
  rig.run();
  EXPECT_EQ(rig.engine().last_fault(),
            "drafter 'toy' could not draft: the draft model lacks the hidden state of token 0 of "
            "sequence 0 – they were given from token 4 on – give those of every token not computed "
            "yet");
}

}  // namespace
}  // namespace tenon
