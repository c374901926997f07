// What goes round in circles ends, whatever the scheduler does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/fake_device/rig.h"

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

TEST(ProgressGuard, ends_what_goes_round_in_circles_and_says_who_holds_what) {
  Seesaw scheduler;
  RigOptions options;
  options.own_scheduler = &scheduler;
  options.engine.futile_steps = 100;
  Rig rig(options);
  rig.submit(greedy_request(std::vector<TokenId>(20, 1), 4));
  rig.submit(greedy_request(std::vector<TokenId>(30, 2), 4));
  rig.run(200);
  for (RequestId id : {1u, 2u}) {
    EXPECT_EQ(rig.result(id).reason, FinishReason::error);
    const std::string& message = rig.result(id).message;
    EXPECT_THAT(message, HasSubstr("nobody got on in 150 steps with "));
    EXPECT_THAT(message, HasSubstr("sequence 0 of request 1 has "));
    EXPECT_THAT(message, HasSubstr(" of 20 tokens computed (10 once), holds "));
    EXPECT_THAT(message, HasSubstr("sequence 1 of request 2 has "));
    EXPECT_THAT(message,
                HasSubstr("of 4096 tokens of K/V are free – scheduler 'continuous' goes round "
                          "in circles over kv_cache 'paged' – use another scheduler, or "
                          "raise kv_cache.memory"));
  }
  rig.submit(greedy_request({7}, 1));
  rig.run(200);
  EXPECT_EQ(rig.result(3).message, "") << "the engine goes on";
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
}

}  // namespace
}  // namespace tenon
