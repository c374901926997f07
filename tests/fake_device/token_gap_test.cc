// How long those who decode wait for their next token while long prompts arrive, on a device whose
// steps cost a fixed time and more for each row.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/fake_device/rig/masked_ledger.h"
#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

constexpr int64_t kStepNs = 10'000'000;
constexpr int64_t kRowNs = 100'000;
constexpr uint32_t kDecoding = 6;

struct Gaps {
  int64_t worst_ns = 0;                // between two tokens of a sequence that decodes
  int64_t time_to_first_token_ns = 0;  // of the long prompts, mean
  int64_t end_ns = 0;
};

Gaps run(const char* scheduler_id, const char* options_text) {
  LoadedPlugin<Scheduler> plugin("scheduler", scheduler_id, options_text);
  EXPECT_EQ(plugin.error(), "");
  MaskedScheduler scheduler(*plugin);
  RigOptions options;
  options.own_scheduler = &scheduler;
  options.context_tokens = 2048;
  options.max_batch_tokens = 2048;
  options.kv_tokens = 16384;
  options.engine.logits_digest = false;
  options.engine.plan_ahead = false;  // the clock moves while it plans
  Rig rig(options);
  scheduler.after = [&](const SchedulerView&, const PlanOut& out) {
    int64_t rows = 0;
    for (const Grant& grant : out.grants.first(out.grant_count)) rows += grant.tokens;
    rig.clock().advance(kStepNs + kRowNs * rows);
  };
  for (uint32_t i = 0; i < kDecoding; ++i) rig.submit(greedy_request({1, 2, 3}, 150));
  for (int step = 0; step < 20; ++step) EXPECT_TRUE(rig.engine().step().ok());
  const RequestId first_long = kDecoding + 1;
  for (int i = 0; i < 2; ++i) {
    rig.submit(greedy_request(std::vector<TokenId>(1500, 5), 4));
  }
  rig.run();
  Gaps gaps;
  for (RequestId id = 1; id <= kDecoding; ++id) {
    const std::vector<int64_t>& times = rig.result(id).record.token_ns;
    for (size_t i = 1; i < times.size(); ++i) {
      gaps.worst_ns = std::max(gaps.worst_ns, times[i] - times[i - 1]);
    }
  }
  for (RequestId id = first_long; id < first_long + 2; ++id) {
    gaps.time_to_first_token_ns += rig.result(id).record.time_to_first_token_ns() / 2;
  }
  gaps.end_ns = rig.clock().now_ns();
  return gaps;
}

constexpr int64_t kDecodeStepNs = kStepNs + kDecoding * kRowNs;

TEST(TokenGap, of_whole_prompts_is_as_long_as_the_prompts) {
  EXPECT_GE(run("continuous", "").worst_ns, 1500 * kRowNs);
}

TEST(TokenGap, of_chunked_prompts_keeps_the_target) {
  for (const char* scheduler : {"chunked", "fair"}) {
    const Gaps gaps = run(scheduler, "target_step=2.5");
    EXPECT_LE(gaps.worst_ns, kDecodeStepNs * 5 / 2) << scheduler;
    EXPECT_GE(gaps.worst_ns, kDecodeStepNs * 3 / 2) << scheduler << " leaves prompts waiting";
  }
}

TEST(TokenGap, is_shorter_by_far_for_prompts_that_take_a_third_longer_at_most) {
  const Gaps whole = run("continuous", "");
  const Gaps chunked = run("chunked", "");
  EXPECT_LE(chunked.worst_ns * 4, whole.worst_ns);
  EXPECT_LE(chunked.time_to_first_token_ns, whole.time_to_first_token_ns * 4 / 3);
  RecordProperty("whole_worst_ms", static_cast<int>(whole.worst_ns / 1000000));
  RecordProperty("whole_first_ms", static_cast<int>(whole.time_to_first_token_ns / 1000000));
  RecordProperty("chunked_worst_ms", static_cast<int>(chunked.worst_ns / 1000000));
  RecordProperty("chunked_first_ms", static_cast<int>(chunked.time_to_first_token_ns / 1000000));
}

}  // namespace
}  // namespace tenon
