#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/drafter.h>
#include <tenon/model_runner.h>

#include <deque>
#include <memory>
#include <vector>

#include "tests/support/option_values.h"
#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using Tokens = std::vector<TokenId>;
constexpr uint32_t kVocabulary = 10;

// Says the last token plus one, and keeps what it was asked for.
class CountingRunner final : public ModelRunner {
 public:
  uint32_t vocabulary() const noexcept override { return kVocabulary; }
  uint32_t context_tokens() const noexcept override { return context; }
  uint32_t computed(SeqId, std::span<const TokenId>) noexcept override { return 0; }
  Status forward(std::span<const RunnerRow> rows, std::span<const float*> logits,
                 std::span<const float*>) noexcept override {
    rows_of_passes.push_back(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) logits[i] = nothing_;
    if (rows_of_passes.size() == fails_at) {
      return Status::error(StatusCode::failed, "no power");
    }
    return {};
  }
  Status draw(std::span<const RunnerRow> rows, std::span<const float* const>,
              std::span<RunnerDraw> draws) noexcept override {
    for (size_t i = 0; i < rows.size(); ++i) {
      const TokenId last = rows[i].history.back();
      draws[i].token = last == silent_behind ? kNoToken : (last + 1) % TokenId{kVocabulary};
      if (draws[i].probs != nullptr) draws[i].probs[draws[i].token] = 1.0f;
    }
    return {};
  }

  uint32_t context = 100;
  size_t fails_at = 0;
  TokenId silent_behind = kNoToken;
  std::vector<size_t> rows_of_passes;

 private:
  float nothing_[kVocabulary] = {};
};

class DraftModel : public testing::Test {
 protected:
  DraftModel() {
    static ModelRunner* runner;
    runner = &runner_;
    host_.services.extension = [](void*, std::string_view id) noexcept -> const void* {
      return id == kModelRunner ? &runner : nullptr;
    };
    drafter_ = std::make_unique<PluginInstance<Drafter>>(
        "draft_model", host_,
        PluginInstance<Drafter>::Options{{"adaptive", option_of(false)},
                                         {"max_draft_tokens", option_of(int64_t{3})}});
    for (SeqId seq = 0; seq < 3; ++seq) EXPECT_TRUE((*drafter_)->begin(seq, kNoSeq).ok());
  }

  // Adds a request; `text` is known, and room for the slots follows it.
  void ask(SeqId seq, const Tokens& known, uint32_t slots, float* probs = nullptr) {
    texts_.push_back(known);
    Tokens& text = texts_.back();
    text.resize(known.size() + slots, kNoToken);
    requests_.push_back({.seq = seq,
                         .history = std::span<const TokenId>(text).first(known.size()),
                         .max_tokens = slots,
                         .key = {}});
    DraftOut& out = outs_.emplace_back();
    out.tokens = std::span(text).subspan(known.size());
    out.probs = probs;
  }
  Tokens drafted(size_t i) const {
    return {outs_[i].tokens.begin(), outs_[i].tokens.begin() + outs_[i].count};
  }
  Drafter& drafter() { return **drafter_; }

  TestHost host_;
  CountingRunner runner_;
  std::unique_ptr<PluginInstance<Drafter>> drafter_;
  std::deque<Tokens> texts_;
  std::vector<DraftRequest> requests_;
  std::vector<DraftOut> outs_;
};

TEST_F(DraftModel, draws_token_by_token_for_all_sequences_together) {
  ask(0, {1, 2}, 3);
  ask(1, {7}, 1);
  ask(2, {8}, 2);
  ASSERT_TRUE(drafter().draft(requests_, outs_).ok());
  EXPECT_THAT(drafted(0), ElementsAre(3, 4, 5));
  EXPECT_THAT(drafted(1), ElementsAre(8));
  EXPECT_THAT(drafted(2), ElementsAre(9, 0));
  EXPECT_THAT(runner_.rows_of_passes, ElementsAre(3, 2, 1));
}

TEST_F(DraftModel, offers_what_is_configured_and_what_the_context_has_room_for) {
  runner_.context = 12;
  const Tokens history(10, 1);
  const DraftRequest requests[] = {
      {.seq = 0, .history = std::span(history).first(4), .max_tokens = 8, .key = {}},
      {.seq = 1, .history = std::span(history).first(4), .max_tokens = 2, .key = {}},
      {.seq = 2, .history = history, .max_tokens = 8, .key = {}}};
  uint32_t offered[3] = {};
  ASSERT_TRUE(drafter().offer(requests, offered).ok());
  EXPECT_THAT(offered, ElementsAre(3, 2, 2));
}

TEST_F(DraftModel, gives_the_distribution_of_each_token_where_it_is_asked_for) {
  std::vector<float> probs(3 * kVocabulary);
  ask(0, {1}, 3, probs.data());
  ask(1, {1}, 3);
  ASSERT_TRUE(drafter().draft(requests_, outs_).ok());
  EXPECT_TRUE(outs_[0].has_probs);
  EXPECT_FALSE(outs_[1].has_probs);
  for (uint32_t d = 0; d < 3; ++d) EXPECT_EQ(probs[d * kVocabulary + 2 + d], 1.0f);
}

TEST_F(DraftModel, stops_a_sequence_whose_row_has_no_token) {
  runner_.silent_behind = 4;
  ask(0, {3}, 3);
  ask(1, {6}, 3);
  ASSERT_TRUE(drafter().draft(requests_, outs_).ok());
  EXPECT_THAT(drafted(0), ElementsAre(4));
  EXPECT_THAT(drafted(1), ElementsAre(7, 8, 9));
}

TEST_F(DraftModel, passes_a_failure_of_the_model_on) {
  runner_.fails_at = 2;
  ask(0, {1}, 3);
  EXPECT_EQ(drafter().draft(requests_, outs_).message(), "no power");
}

TEST(DraftModelAlone, says_what_to_configure_when_there_is_no_second_model) {
  TestHost host;
  const PluginDescriptor& descriptor = *find_descriptor("draft_model");
  alignas(16) std::byte options[64];
  ASSERT_LE(descriptor.options_bytes, sizeof(options));
  descriptor.construct_options(options);
  void* made = nullptr;
  EXPECT_EQ(descriptor.create(host.services, {}, options, &made).message(),
            "there is no second model to draft with; set drafter.model to the folder of a smaller "
            "model with the same vocabulary");
  EXPECT_EQ(made, nullptr);
}

}  // namespace
}  // namespace tenon
