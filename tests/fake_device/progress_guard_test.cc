// What goes round in circles ends, whatever the scheduler does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// Computes one of two sequences and takes its memory again, in turns, for ever.
class Seesaw final : public Scheduler {
 public:
  Status on_event(const SequenceEvent&) noexcept override { return {}; }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    for (const SequenceView& sequence : view.running) {
      (void)ledger.release(sequence.seq, ReleaseHow::recompute);
    }
    if (view.waiting.empty()) return {};
    const SequenceView& next = view.waiting[view.step_id % view.waiting.size()];
    const uint32_t left = next.known_tokens - next.computed_tokens;
    const uint32_t piece = std::max(left / 2, 1u);
    const GrowResult grown = ledger.try_grow(next.seq, piece, piece);
    if (grown.granted > 0) out.push({next.seq, grown.granted, 0});
    return {};
  }
};

// Each of them has its chance alone first, which is of no use with this scheduler.
TEST(ProgressGuard, ends_what_goes_round_in_circles_and_says_who_holds_what) {
  Seesaw scheduler;
  RigOptions options;
  options.own_scheduler = &scheduler;
  options.engine.futile_steps = 100;
  Rig rig(options);
  rig.submit(greedy_request(std::vector<TokenId>(20, 1), 4));
  rig.submit(greedy_request(std::vector<TokenId>(30, 2), 4));
  rig.run(1000);
  for (RequestId id : {1u, 2u}) {
    EXPECT_EQ(rig.result(id).reason, FinishReason::error);
    const std::string& message = rig.result(id).message;
    EXPECT_THAT(message, HasSubstr("nobody got on in "));
    EXPECT_THAT(message, HasSubstr("sequence " + std::to_string(id - 1) + " of request " +
                                   std::to_string(id) + " has "));
    EXPECT_THAT(message, HasSubstr(" once), holds "));
    EXPECT_THAT(message,
                HasSubstr("of 4096 tokens of K/V are free – scheduler 'continuous' goes round "
                          "in circles over kv_cache 'paged' – use another scheduler, or "
                          "raise kv_cache.memory"));
  }
  rig.submit(greedy_request({7}, 1));
  rig.run(200);
  EXPECT_EQ(rig.result(3).message, "") << "the engine goes on";
}

// Lets everyone run, and takes the memory of all but the latest again, in turns, for ever.
class Musical final : public Scheduler {
 public:
  Status on_event(const SequenceEvent&) noexcept override { return {}; }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    const bool others = view.running.size() + view.waiting.size() > 1;
    for (const SequenceView& sequence : view.running) {
      if (others && ledger.release(sequence.seq, ReleaseHow::recompute)) continue;
      grant(sequence, ledger, out);
    }
    if (view.running.empty() || others) {
      if (!view.waiting.empty())
        grant(view.waiting[view.step_id % view.waiting.size()], ledger, out);
    }
    return {};
  }

 private:
  static void grant(const SequenceView& sequence, KvLedger& ledger, PlanOut& out) {
    const uint32_t left = sequence.known_tokens - sequence.computed_tokens;
    const uint32_t piece = std::min(left, 5u);
    const GrowResult grown = ledger.try_grow(sequence.seq, piece, piece);
    if (grown.granted > 0) out.push({sequence.seq, grown.granted, 0});
  }
};

TEST(ProgressGuard, lets_those_who_take_memory_from_each_other_run_alone) {
  Musical scheduler;
  RigOptions options;
  options.own_scheduler = &scheduler;
  options.engine.plan_ahead = false;
  Rig rig(options);
  const std::vector<Request> requests = {greedy_request(std::vector<TokenId>(20, 1), 9),
                                         greedy_request(std::vector<TokenId>(30, 2), 9),
                                         greedy_request(std::vector<TokenId>(25, 3), 9)};
  for (const Request& request : requests) rig.submit(request);
  rig.run(300);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(rig.result(i + 1).message, "");
    EXPECT_EQ(rig.result(i + 1).ids(), oracle(options.model(), requests[i], 0, 256).ids);
  }
  EXPECT_EQ(rig.engine().totals().plan_faults, 0u);
}

TEST(ProgressGuard, does_not_count_what_is_computed_for_the_first_time) {
  RigOptions options;
  options.scheduler_options = "chunk_tokens=1";
  options.engine.futile_steps = 1;
  Rig rig(options);
  rig.submit(greedy_request(std::vector<TokenId>(200, 1), 4));
  rig.run(400);
  EXPECT_EQ(rig.result(1).message, "");
}

TEST(ProgressGuard, lets_everything_be_computed_once_more) {
  Seesaw seesaw;
  RigOptions options;
  options.own_scheduler = &seesaw;
  options.engine.futile_steps = 100;
  Rig rig(options);
  rig.submit(greedy_request(std::vector<TokenId>(20, 1), 4));
  rig.submit(greedy_request(std::vector<TokenId>(30, 2), 4));
  for (int step = 0; step < 140; ++step) ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_FALSE(rig.engine().idle());
  EXPECT_EQ(rig.engine().totals().plan_faults, 0u);
}

}  // namespace
}  // namespace tenon
