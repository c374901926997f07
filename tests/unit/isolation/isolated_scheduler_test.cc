// A scheduler's process against a ledger that is not what it foresaw.
#include "core/isolation/isolated_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/clock.h"
#include "core/isolation/isolated_library.h"
#include "core/plugin/instance.h"
#include "tests/support/folders.h"

namespace tenon {
namespace {

using testing::ElementsAre;

// Grants everything but to some, and notes in which order it was asked.
class NotingLedger final : public KvLedger {
 public:
  CachedTokens cached(SeqId) noexcept override { return {}; }
  uint64_t cost(SeqId, uint32_t tokens) noexcept override { return tokens; }
  GrowResult try_grow(SeqId seq, uint32_t, uint32_t at_most) noexcept override {
    asked.push_back(seq);
    return {refused.contains(seq) ? 0 : at_most, reused};
  }
  HeldTokens held(SeqId) noexcept override { return {}; }
  bool release(SeqId, ReleaseHow) noexcept override { return false; }
  uint64_t free_tokens() noexcept override {
    ++looked_at;
    return free;
  }

  std::set<SeqId> refused;
  uint32_t reused = 0;
  uint64_t free = 1000;
  std::vector<SeqId> asked;
  int looked_at = 0;  // once a plan, and once a question
};

class IsolatedSchedulers : public testing::Test {
 protected:
  IsolatedSchedulers() {
    const std::string path = build_folder() + "/tests/pipeline/libtenon-faulty.so";
    const auto library = isolate_library(path, {}, {});
    EXPECT_TRUE(library.ok()) << library.status().message();
    const PluginDescriptor* plugin = (*library)->find(kSchedulerInterface, "test.sound");
    auto made = PluginInstance<Scheduler>::create({*library, plugin}, *fill_options(*plugin, {}),
                                                  {&host_, &clock_, &facts_, nullptr});
    EXPECT_TRUE(made.ok()) << made.status().message();
    scheduler_ = *std::move(made);
  }

  // Of three running sequences with a token each to compute.
  std::vector<SeqId> plan(NotingLedger& ledger) {
    std::vector<SequenceView> running;
    for (SeqId seq = 1; seq <= 3; ++seq) {
      SequenceView view;
      view.seq = view.fork_group = seq;
      view.known_tokens = 10;
      view.computed_tokens = 9;
      running.push_back(view);
    }
    SchedulerView view;
    view.limits = {8, 64, 96};
    view.running = running;
    std::vector<Grant> grants(running.size());
    PlanOut out;
    out.grants = grants;
    const Status status = scheduler_->plan(view, ledger, out);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<SeqId> granted;
    for (uint32_t i = 0; i < out.grant_count; ++i) granted.push_back(grants[i].seq);
    return granted;
  }

  HostFacts host_;
  WallClock clock_;
  ResolvedFact fact_{"kv.block_tokens", {}, 16};
  PipelineFacts facts_{&fact_, 1};
  PluginInstance<Scheduler> scheduler_;
};

TEST_F(IsolatedSchedulers, asks_nothing_of_a_ledger_with_plenty_and_makes_each_growth_true) {
  NotingLedger ledger;
  EXPECT_THAT(plan(ledger), ElementsAre(1, 2, 3));
  EXPECT_THAT(ledger.asked, ElementsAre(1, 2, 3));
  EXPECT_EQ(ledger.looked_at, 1);
}

TEST_F(IsolatedSchedulers, asks_for_each_growth_where_memory_is_short) {
  NotingLedger ledger;
  ledger.free = 8;
  EXPECT_THAT(plan(ledger), ElementsAre(1, 2, 3));
  EXPECT_EQ(ledger.looked_at, 4);
}

TEST_F(IsolatedSchedulers,
       a_growth_that_turns_out_otherwise_loses_its_grant_and_is_asked_for_then) {
  NotingLedger ledger;
  ledger.refused = {2};
  EXPECT_THAT(plan(ledger), ElementsAre(1, 3));
  EXPECT_EQ(ledger.looked_at, 1);
  ledger.looked_at = 0;
  EXPECT_THAT(plan(ledger), ElementsAre(1, 3));
  EXPECT_EQ(ledger.looked_at, 4);
}

TEST_F(IsolatedSchedulers, a_growth_that_reuses_what_nobody_foresaw_loses_its_grant) {
  NotingLedger ledger;
  ledger.reused = 4;
  EXPECT_TRUE(plan(ledger).empty());
}

}  // namespace
}  // namespace tenon
