// A prompt whose beginning another sequence is computing right now waits for it.
#include <gtest/gtest.h>

#include <set>

#include "tests/fake_device/rig/masked_ledger.h"
#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

struct Rigged {
  explicit Rigged(const char* id, const char* plugin_options = "")
      : plugin("scheduler", id, plugin_options), scheduler(*plugin) {
    scheduler.mask.cached_instead = [this](SeqId seq, CachedTokens found) {
      found.promised = promised.contains(seq) ? 1 : 0;
      return found;
    };
    scheduler.after = [this](const SchedulerView&, const PlanOut& out) {
      granted.clear();
      for (uint32_t i = 0; i < out.grant_count; ++i) granted.insert(out.grants[i].seq);
    };
    RigOptions options;
    options.own_scheduler = &scheduler;
    options.context_tokens = 600;
    options.engine.stall_steps = 20;
    rig = std::make_unique<Rig>(options);
  }
  // Sequence ids rise from 0 in the order of submission.
  void submit(uint32_t prompt, uint32_t answer) {
    rig->submit(greedy_request(std::vector<TokenId>(prompt, 3), answer));
  }
  const std::set<SeqId>& step() {
    EXPECT_TRUE(rig->engine().step().ok());
    EXPECT_EQ(rig->engine().last_fault(), "");
    return granted;
  }

  LoadedPlugin<Scheduler> plugin;
  MaskedScheduler scheduler;
  std::set<SeqId> promised, granted;
  std::unique_ptr<Rig> rig;
};

class Promise : public testing::TestWithParam<const char*> {};

TEST_P(Promise, is_waited_for_and_others_go_first) {
  Rigged rigged(GetParam());
  for (int i = 0; i < 3; ++i) rigged.submit(20, 30);
  rigged.promised = {1};
  EXPECT_EQ(rigged.step(), (std::set<SeqId>{0, 2}));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(rigged.step(), (std::set<SeqId>{0, 2}));
  rigged.promised.clear();
  EXPECT_TRUE(rigged.step().contains(1));
  rigged.rig->run();
}

TEST_P(Promise, holds_nobody_when_nothing_else_runs) {
  Rigged rigged(GetParam());
  for (int i = 0; i < 3; ++i) rigged.submit(20, 3);
  rigged.promised = {0, 1, 2};
  EXPECT_EQ(rigged.step(), (std::set<SeqId>{0}));
  rigged.rig->run();
  EXPECT_EQ(rigged.rig->engine().last_fault(), "");
}

TEST_P(Promise, that_is_never_kept_is_given_up) {
  Rigged rigged(GetParam());
  rigged.submit(2, 500);
  rigged.submit(20, 3);
  rigged.promised = {1};
  for (int i = 0; i < 250; ++i) EXPECT_EQ(rigged.step(), (std::set<SeqId>{0}));
  bool admitted = false;
  for (int i = 0; i < 20; ++i) admitted = admitted || rigged.step().contains(1);
  EXPECT_TRUE(admitted);
  rigged.rig->run();
}

INSTANTIATE_TEST_SUITE_P(Schedulers, Promise,
                         testing::Values("static", "continuous", "chunked", "fair"));

}  // namespace
}  // namespace tenon
