// Plans of single steps, over views made by hand and memory without end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/scheduler.h>

#include <string>
#include <vector>

#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

class EndlessLedger final : public KvLedger {
 public:
  CachedTokens cached(SeqId) noexcept override { return {}; }
  uint64_t cost(SeqId, uint32_t tokens) noexcept override { return tokens; }
  GrowResult try_grow(SeqId, uint32_t, uint32_t at_most) noexcept override { return {at_most, 0}; }
  HeldTokens held(SeqId) noexcept override { return {}; }
  bool release(SeqId, ReleaseHow) noexcept override { return false; }
  uint64_t free_tokens() noexcept override { return 1u << 30; }
};

SequenceView decoding(SeqId seq, uint32_t drafts = 0) {
  SequenceView view;
  view.seq = seq;
  view.prompt_tokens = 10;
  view.known_tokens = 15;
  view.computed_tokens = 14;
  view.offered_drafts = drafts;
  view.arrival_ns = seq;
  return view;
}

SequenceView prompt(SeqId seq, uint32_t tokens, uint32_t computed = 0) {
  SequenceView view;
  view.seq = seq;
  view.prompt_tokens = view.known_tokens = tokens;
  view.computed_tokens = computed;
  view.arrival_ns = seq;
  return view;
}

// Steps of one scheduler; plans as "3=5 4=1+2".
class Steps {
 public:
  explicit Steps(const PluginInstance<Scheduler>::Options& options = {})
      : scheduler_("chunked", host_, options) {}

  std::string plan(const std::vector<SequenceView>& running,
                   const std::vector<SequenceView>& waiting, StepCost last = {}) {
    SchedulerView view;
    view.step_id = ++step_;
    view.limits = {64, 1024, 4096};
    view.kv_tokens = 1u << 20;
    view.last_step = last;
    view.running = running;
    view.waiting = waiting;
    std::vector<Grant> grants(running.size() + waiting.size());
    PlanOut out;
    out.grants = grants;
    EndlessLedger ledger;
    Status status = scheduler_->plan(view, ledger, out);
    if (!status.ok()) return std::string(status.message());
    std::string text;
    for (const Grant& grant : std::span(grants).first(out.grant_count)) {
      if (!text.empty()) text += " ";
      text += std::to_string(grant.seq) + "=" + std::to_string(grant.tokens);
      if (grant.drafts > 0) text += "+" + std::to_string(grant.drafts);
    }
    return text;
  }

 private:
  TestHost host_;
  PluginInstance<Scheduler> scheduler_;
  uint64_t step_ = 0;
};

OptionValue tokens(int64_t count) {
  OptionValue value;
  value.integer = count;
  return value;
}

TEST(Chunked, shares_drafts_out_behind_everyones_next_token) {
  Steps steps({{"step_tokens", tokens(8)}});
  EXPECT_EQ(steps.plan({decoding(1, 5), decoding(2, 5), decoding(3, 5)}, {}), "1=1+5 2=1 3=1");
}

TEST(Chunked, leaves_prompts_half_of_what_drafts_could_take) {
  Steps steps({{"step_tokens", tokens(20)}});
  EXPECT_EQ(steps.plan({decoding(1, 16), decoding(2, 16)}, {prompt(3, 500)}), "1=1+9 2=1 3=9");
}

TEST(Chunked, lets_drafts_have_everything_where_nobody_could_be_admitted) {
  Steps steps({{"step_tokens", tokens(20)}, {"max_sequences", tokens(2)}});
  EXPECT_EQ(steps.plan({decoding(1, 16), decoding(2, 16)}, {prompt(3, 500)}), "1=1+16 2=1+2");
}

TEST(Chunked, continues_prompts_before_it_begins_others) {
  Steps steps({{"step_tokens", tokens(32)}});
  EXPECT_EQ(steps.plan({decoding(1), prompt(2, 40, 20)}, {prompt(3, 50)}), "1=1 2=20 3=11");
}

TEST(Chunked, exceeds_its_own_budget_for_tokens_that_belong_together) {
  Steps steps({{"step_tokens", tokens(32)}});
  SequenceView span = prompt(2, 400);
  span.whole_tokens = 300;
  EXPECT_EQ(steps.plan({decoding(1), span}, {prompt(3, 50)}), "1=1 2=300");
}

TEST(Chunked, lets_tokens_that_belong_together_go_first_once_they_had_to_wait) {
  Steps steps({{"step_tokens", tokens(2000)}});
  SequenceView span = prompt(2, 1100);
  span.whole_tokens = 1024;
  EXPECT_EQ(steps.plan({decoding(1), span}, {prompt(3, 50)}), "1=1");
  EXPECT_EQ(steps.plan({decoding(1), span}, {prompt(3, 50)}), "2=1024");
}

TEST(Chunked, exceeds_no_limit_of_the_pipeline) {
  Steps steps({{"step_tokens", tokens(1 << 20)}});
  EXPECT_EQ(steps.plan({decoding(1)}, {prompt(2, 4000)}), "1=1 2=1023");
}

TEST(Chunked, decides_the_same_from_the_same_costs) {
  Steps once, again;
  for (uint32_t i = 1; i < 300; ++i) {
    const bool alone = i % 3 == 0;
    const uint32_t rows = alone ? 2 : 2 + i % 200;
    const StepCost cost{i, rows, 3, alone ? 2u : 1u, 1000000 + int64_t{i * 7919 % 5000} * rows};
    const std::string plan = once.plan({decoding(1), decoding(2)}, {prompt(3, 900)}, cost);
    EXPECT_EQ(plan, again.plan({decoding(1), decoding(2)}, {prompt(3, 900)}, cost));
    EXPECT_THAT(plan, testing::StartsWith("1=1 2=1"));
  }
}

}  // namespace
}  // namespace tenon
