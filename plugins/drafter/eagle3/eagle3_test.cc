#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/drafter.h>
#include <tenon/extensions/prompt_states.h>
#include <tenon/model_runner.h>

#include <deque>
#include <memory>
#include <vector>

#include "tests/support/option_values.h"
#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Tokens = std::vector<TokenId>;
constexpr uint32_t kVocabulary = 10;
constexpr uint32_t kTargetHidden = 2, kHeadHidden = 3;

// A head that says the last token plus one, and keeps what it was given. Its own state after a
// history is the history's length, three times.
class RecordingRunner final : public ModelRunner {
 public:
  uint32_t vocabulary() const noexcept override { return kVocabulary; }
  uint32_t context_tokens() const noexcept override { return 100; }
  uint32_t computed(SeqId, std::span<const TokenId>) noexcept override { return read; }
  Status forward(std::span<const RunnerRow> rows, std::span<const float*> logits,
                 std::span<const float*> hidden) noexcept override {
    states_.clear();
    for (size_t i = 0; i < rows.size(); ++i) {
      const RunnerRow& row = rows[i];
      histories.emplace_back(row.history.begin(), row.history.end());
      const auto* from = static_cast<const float*>(row.hidden.data);
      inputs.emplace_back(from, from + row.hidden.shape[0] * row.hidden.shape[1]);
      widths.push_back(row.hidden.shape[1]);
      states_.emplace_back(kHeadHidden, static_cast<float>(row.history.size()));
      logits[i] = nothing_;
      hidden[i] = states_.back().data();
    }
    return {};
  }
  Status draw(std::span<const RunnerRow> rows, std::span<const float* const>,
              std::span<RunnerDraw> draws) noexcept override {
    for (size_t i = 0; i < rows.size(); ++i) {
      drawn_from.emplace_back(rows[i].history.begin(), rows[i].history.end());
      draws[i].token = (rows[i].history.back() + 1) % TokenId{kVocabulary};
    }
    return {};
  }

  uint32_t read = 0;
  std::vector<Tokens> histories, drawn_from;
  std::vector<std::vector<float>> inputs;
  std::vector<uint64_t> widths;

 private:
  std::deque<std::vector<float>> states_;
  float nothing_[kVocabulary] = {};
};

// The host's extensions reach what the fixture at hand has.
struct Host {
  ModelRunner* runner = nullptr;
  ModelShape shape;
  LayerId layers[2] = {1, 3};
  HiddenLayersOut head;
  int8_t said = 0;
  int8_t* norm = &said;
  std::string_view kind = "eagle3";
};
Host* host = nullptr;

const void* extension_of_host(void*, std::string_view id) noexcept {
  if (id == kModelRunner) return &host->runner;
  if (id == "model_runner_shape/1") return &host->shape;
  if (id == "draft_head/1") return &host->head;
  if (id == "draft_head_kind/1") return &host->kind;
  return id == "head_norm_before_residual/1" ? &host->norm : nullptr;
}

class Eagle3Drafter : public testing::Test {
 protected:
  Eagle3Drafter() {
    host = &offered_;
    offered_.runner = &runner_;
    offered_.shape.hidden = kHeadHidden;
    offered_.head.layers = offered_.layers;
    offered_.head.count = 2;
    host_.services.extension = extension_of_host;
  }
  void make(bool adaptive = false) {
    drafter_ = std::make_unique<PluginInstance<Drafter>>(
        "eagle3", host_,
        PluginInstance<Drafter>::Options{{"adaptive", option_of(adaptive)},
                                         {"max_draft_tokens", option_of(int64_t{2})}});
    ModelShape target;
    target.hidden = kTargetHidden;
    target.layer_count = 4;
    LayerId wanted[5] = {};
    HiddenLayersOut out;
    out.layers = wanted;
    ASSERT_TRUE((*drafter_)->bind(target, out).ok());
    EXPECT_THAT(std::vector<LayerId>(wanted, wanted + out.count), ElementsAre(1, 3));
    ASSERT_TRUE((*drafter_)->begin(7, kNoSeq).ok());
  }
  // States of layer 1 at position p are p, p; of layer 3 -p, -p.
  void observe(uint32_t first, uint32_t count) {
    std::vector<uint32_t> positions;
    std::vector<float> low, high;
    for (uint32_t p = first; p < first + count; ++p) {
      positions.push_back(p);
      low.insert(low.end(), kTargetHidden, static_cast<float>(p));
      high.insert(high.end(), kTargetHidden, -static_cast<float>(p));
    }
    TensorView views[2];
    for (size_t i = 0; i < 2; ++i) {
      views[i].data = i == 0 ? low.data() : high.data();
      views[i].rank = 2;
      views[i].shape[0] = count;
      views[i].shape[1] = views[i].stride[0] = kTargetHidden;
      views[i].stride[1] = 1;
    }
    const HiddenView view{7, positions, offered_.layers, views};
    ASSERT_TRUE((*drafter_)->observe({&view, 1}).ok());
  }
  uint32_t offered(const Tokens& known) {
    const DraftRequest request{.seq = 7, .history = known, .max_tokens = 8, .key = {}};
    uint32_t count = 99;
    EXPECT_TRUE((*drafter_)->offer({&request, 1}, {&count, 1}).ok());
    return count;
  }
  Tokens drafted(const Tokens& known) {
    Tokens text = known;
    text.resize(known.size() + 2, kNoToken);
    const DraftRequest request{.seq = 7,
                               .history = std::span<const TokenId>(text).first(known.size()),
                               .max_tokens = 2,
                               .key = {}};
    DraftOut out;
    out.tokens = std::span(text).subspan(known.size());
    EXPECT_TRUE((*drafter_)->draft({&request, 1}, {&out, 1}).ok());
    return {out.tokens.begin(), out.tokens.begin() + out.count};
  }

  TestHost host_;
  Host offered_;
  RecordingRunner runner_;
  std::unique_ptr<PluginInstance<Drafter>> drafter_;
};

TEST_F(Eagle3Drafter, pairs_each_token_with_the_states_before_it_and_goes_on_from_the_heads_own) {
  make();
  observe(0, 3);
  EXPECT_EQ(offered({4, 5, 6, 7}), 2u);
  EXPECT_THAT(drafted({4, 5, 6, 7}), ElementsAre(8, 9));
  EXPECT_THAT(runner_.histories, ElementsAre(Tokens{5, 6, 7}, Tokens{5, 6, 7, 8}));
  EXPECT_THAT(runner_.drawn_from, ElementsAre(Tokens{4, 5, 6, 7}, Tokens{4, 5, 6, 7, 8}));
  EXPECT_THAT(runner_.widths, ElementsAre(2 * kTargetHidden, kHeadHidden));
  EXPECT_THAT(runner_.inputs[0], ElementsAre(0, 0, 0, 0, 1, 1, -1, -1, 2, 2, -2, -2));
  EXPECT_THAT(runner_.inputs[1], ElementsAre(3, 3, 3));
}

TEST_F(Eagle3Drafter, gives_only_states_that_the_head_has_not_read) {
  make();
  observe(0, 3);
  drafted({4, 5, 6, 7});
  runner_.read = 3;
  observe(3, 2);
  runner_.inputs.clear();
  drafted({4, 5, 6, 7, 8, 1});
  EXPECT_THAT(runner_.inputs[0], ElementsAre(3, 3, -3, -3, 4, 4, -4, -4));
}

TEST_F(Eagle3Drafter, proposes_nothing_after_a_prefix_that_the_head_has_not_read) {
  make();
  observe(2, 1);
  EXPECT_EQ(offered({4, 5, 6, 7}), 2u) << "the head may have read it";
  runner_.read = 1;
  EXPECT_THAT(drafted({4, 5, 6, 7}), ElementsAre());
  EXPECT_EQ(offered({4, 5, 6, 7}), 0u);
}

TEST_F(Eagle3Drafter, takes_positions_that_are_computed_again) {
  make();
  observe(0, 3);
  observe(1, 2);
  drafted({4, 5, 6, 7});
  EXPECT_THAT(runner_.inputs[0], ElementsAre(0, 0, 0, 0, 1, 1, -1, -1, 2, 2, -2, -2));
}

TEST_F(Eagle3Drafter, sees_no_prompts_while_drafts_do_not_pay) {
  make(true);
  const auto* offered_states = static_cast<const PromptStates*>(drafter_->extension(kPromptStates));
  ASSERT_NE(offered_states, nullptr);
  const auto wants = [&](SeqId seq) { return offered_states->wanted(offered_states->self, seq); };
  EXPECT_TRUE(wants(7));
  observe(0, 3);
  for (int step = 0; step < 300; ++step) {
    const uint32_t drafts = offered({4, 5, 6, 7});
    if (drafts > 0) {
      ASSERT_TRUE((*drafter_)->accept(7, Tokens{4, 5, 6, 7, 1}, drafts, 0).ok());
    }
    const auto time = int64_t{1000000} * (1 + drafts);  // a row more costs as much as a step
    ASSERT_TRUE((*drafter_)
                    ->measured({{.step_id = 1,
                                 .rows = 1 + drafts,
                                 .sequences = 1,
                                 .logits_rows = 1 + drafts,
                                 .duration_ns = time},
                                drafts,
                                0})
                    .ok());
  }
  EXPECT_TRUE(wants(7)) << "as it was when the text began";
  ASSERT_TRUE((*drafter_)->begin(8, kNoSeq).ok());
  EXPECT_FALSE(wants(8));
  ASSERT_TRUE((*drafter_)->begin(9, 8).ok());
  EXPECT_FALSE(wants(9)) << "a fork has its parent's prompt";
  uint32_t seen = 0;
  for (SeqId seq = 10; seq < 17; ++seq) {
    ASSERT_TRUE((*drafter_)->begin(seq, kNoSeq).ok());
    seen += wants(seq) ? 1 : 0;
  }
  EXPECT_EQ(seen, 1u) << "every eighth is tried";
}

class Eagle3Alone : public Eagle3Drafter {
 protected:
  std::string refusal() {
    const PluginDescriptor& descriptor = *find_descriptor("eagle3");
    alignas(16) std::byte options[64];
    descriptor.construct_options(options);
    void* made = nullptr;
    return std::string(descriptor.create(host_.services, {}, options, &made).message());
  }
};

TEST_F(Eagle3Alone, says_what_to_configure_when_there_is_no_head) {
  host_.services.extension = nullptr;
  EXPECT_THAT(refusal(), HasSubstr("there is no head to draft with; set drafter.model"));
}

TEST_F(Eagle3Alone, names_the_drafter_for_a_head_of_another_kind) {
  offered_.kind = "mtp";
  EXPECT_THAT(refusal(),
              HasSubstr("the head is of the kind \"mtp\"; set drafter.plugin = \"mtp\""));
}

TEST_F(Eagle3Alone, asks_for_what_the_head_does_not_say) {
  offered_.said = -1;
  EXPECT_THAT(refusal(), HasSubstr("set drafter.options.norm_before_residual"));
}

}  // namespace
}  // namespace tenon
