#include "core/compare/replay/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace tenon::compare {
namespace {

using testing::HasSubstr;

// Grants each running sequence what it lacks, up to `most` tokens, and then each waiting one.
class GreedyScheduler final : public Scheduler {
 public:
  explicit GreedyScheduler(uint32_t most) : most_(most) {}
  virtual ~GreedyScheduler() = default;

  Status on_event(const SequenceEvent& event) noexcept override {
    events.push_back(event);
    return {};
  }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    views.push_back(view.step_id);
    for (const auto& list : {view.running, view.waiting}) {
      for (const SequenceView& each : list) {
        const uint32_t wanted = std::min(most_, each.known_tokens - each.computed_tokens);
        const GrowResult grown = ledger.try_grow(each.seq, 1, wanted);
        if (grown.granted > 0) out.push({each.seq, grown.granted, 0});
      }
    }
    return {};
  }

  std::vector<SequenceEvent> events;
  std::vector<uint64_t> views;

 private:
  const uint32_t most_;
};

class RoomyLedger final : public KvLedger {
 public:
  virtual ~RoomyLedger() = default;
  CachedTokens cached(SeqId) noexcept override { return {}; }
  uint64_t cost(SeqId, uint32_t tokens) noexcept override { return tokens; }
  GrowResult try_grow(SeqId, uint32_t, uint32_t at_most) noexcept override {
    free_ -= at_most;
    return {at_most, 0};
  }
  HeldTokens held(SeqId) noexcept override { return {4, 4}; }
  bool release(SeqId, ReleaseHow) noexcept override { return false; }
  uint64_t free_tokens() noexcept override { return free_; }

 private:
  uint64_t free_ = 100;
};

// Two steps: one sequence runs, another arrives.
void feed(Scheduler& scheduler) {
  RoomyLedger ledger;
  const SequenceView first{.seq = 1, .prompt_tokens = 8, .known_tokens = 8};
  SequenceView later = first;
  later.computed_tokens = 6;
  const SequenceView second{.seq = 2, .prompt_tokens = 20, .known_tokens = 20, .arrival_ns = 5};
  std::vector<Grant> grants(4);
  const auto plan = [&](const SchedulerView& view) {
    PlanOut out;
    out.grants = grants;
    ASSERT_TRUE(scheduler.plan(view, ledger, out).ok());
  };
  ASSERT_TRUE(scheduler.on_event({.kind = EventKind::arrived, .seq = 1, .prompt_tokens = 8}).ok());
  SchedulerView view;
  view.step_id = 1;
  view.limits = {4, 64, 128};
  view.kv_tokens = 100;
  view.waiting = {&first, 1};
  plan(view);
  ASSERT_TRUE(scheduler.on_event({.kind = EventKind::arrived, .seq = 2, .prompt_tokens = 20}).ok());
  view.step_id = 2;
  view.waiting = {&second, 1};
  view.running = {&later, 1};
  plan(view);
}

class ViewsTest : public testing::Test {
 protected:
  void record(uint32_t most) {
    GreedyScheduler scheduler(most);
    auto recorder = ViewRecorder::open(scheduler, path_);
    ASSERT_TRUE(recorder.ok()) << recorder.status().message();
    feed(**recorder);
    EXPECT_EQ(scheduler.views.size(), 2u);
    EXPECT_EQ(scheduler.events.size(), 2u);
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path("views.jsonl");
};

TEST_F(ViewsTest, the_same_scheduler_decides_alike_and_sees_the_same_events) {
  record(64);
  GreedyScheduler again(64);
  const auto found = replay_views(again, path_);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->plans, 2u);
  EXPECT_FALSE(found->differ);
  ASSERT_EQ(again.events.size(), 2u);
  EXPECT_EQ(again.events[1].seq, 2u);
  EXPECT_EQ(again.events[1].prompt_tokens, 20u);
}

TEST_F(ViewsTest, the_first_plan_that_differs_is_shown_and_ends_the_replay) {
  record(64);
  GreedyScheduler other(10);  // differs where 20 tokens wait
  const auto found = replay_views(other, path_);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->plans, 1u);
  EXPECT_TRUE(found->differ);
  ASSERT_EQ(found->lines.size(), 2u);
  EXPECT_THAT(found->lines[0], HasSubstr("step 2: 1 of 4 rows run, 1 sequences wait"));
  EXPECT_THAT(found->lines[1], HasSubstr("sequence 2"));
  EXPECT_THAT(found->lines[1], HasSubstr("recorded 20 tokens, here 10 tokens"));
}

TEST_F(ViewsTest, memory_is_what_was_free_when_the_plan_began) {
  folder_.write_file(
      "views.jsonl",
      R"({"step":1,"now_ns":0,"max_sequences":4,"max_batch_tokens":64,"context_tokens":128,)"
      R"("kv_tokens":100,"free_tokens":5,"last_step":[0,0,0,0,0],"running":[],"waiting":[{"seq":1,)"
      R"("prompt":8,"known":8,"computed":0,"in_flight":0,"limit":9,"drafts":0,"fork_group":0,)"
      R"("samples":1,"tenant":0,"priority":0,"whole":0,"adapter":0,"arrival_ns":0,)"
      R"("deadline_ns":0,"ready":0,"promised":0,"held":0,"exclusive":0}],"grants":[[1,5,0]]})"
      "\n");
  GreedyScheduler scheduler(64);
  const auto found = replay_views(scheduler, path_);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->plans, 1u);
}

TEST_F(ViewsTest, what_is_no_record_is_refused_with_its_line) {
  GreedyScheduler scheduler(64);
  const auto error = [&](const std::string& text) {
    folder_.write_file("views.jsonl", text);
    const auto found = replay_views(scheduler, path_);
    return found.ok() ? "" : std::string(found.status().message());
  };
  EXPECT_THAT(error(""), HasSubstr("has no views"));
  EXPECT_THAT(error("{}\n"), HasSubstr("views.jsonl:1"));
  EXPECT_THAT(error("{\"event\":[0,1,0,0,1,1,0,0]}\nnonsense\n"),
              HasSubstr("views.jsonl:2: not a line of JSON"));
  EXPECT_THAT(std::string(replay_views(scheduler, folder_.path("none")).status().message()),
              HasSubstr("--record"));
}

}  // namespace
}  // namespace tenon::compare
