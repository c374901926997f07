#include "core/base/calls/running_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "core/base/calls/call_trace.h"

namespace tenon {
namespace {

std::string running_now() {
  char text[200];
  return {text, running_calls(text, sizeof(text))};
}

TEST(RunningCalls, are_named_while_they_run) {
  const CallName plan = name_call("plan", "scheduler 'a'");
  EXPECT_EQ(running_now(), "");
  {
    const RunningCall call(plan);
    EXPECT_EQ(running_now(), "plan of scheduler 'a'");
    const RunningCall inner(name_call("match", "kv_cache 'b'"));
    EXPECT_EQ(running_now(), "match of kv_cache 'b'");
  }
  EXPECT_EQ(running_now(), "");
}

TEST(RunningCalls, are_traced_with_their_times_where_that_is_asked_for) {
  const CallName plan = name_call("plan", "scheduler 'a'");
  const CallName sample = name_call("sample", "sampler 'c'");
  { const RunningCall before(plan); }
  start_call_trace();
  {
    const RunningCall outer(plan);
    const RunningCall inner(sample);
  }
  std::thread other([&] { const RunningCall call(sample); });
  other.join();
  const CallTrace trace = take_call_trace();
  { const RunningCall after(plan); }
  EXPECT_EQ(take_call_trace().calls.size(), 0u);
  ASSERT_EQ(trace.calls.size(), 3u);
  EXPECT_EQ(trace.lost, 0u);
  const TracedCall &inner = trace.calls[0], &outer = trace.calls[1], &elsewhere = trace.calls[2];
  EXPECT_EQ(call_text(inner.name), "sample of sampler 'c'");
  EXPECT_EQ(call_text(outer.name), "plan of scheduler 'a'");
  EXPECT_LE(0, outer.begin_ns);
  EXPECT_LE(outer.begin_ns, inner.begin_ns);
  EXPECT_LE(inner.begin_ns, inner.end_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
  EXPECT_EQ(inner.thread, outer.thread);
  EXPECT_NE(inner.thread, elsewhere.thread);
}

TEST(RunningCalls, have_one_number_a_name) {
  EXPECT_EQ(name_call("run", "linear 'a'"), name_call("run", "linear 'a'"));
  EXPECT_NE(name_call("run", "linear 'a'"), name_call("pack", "linear 'a'"));
}

TEST(RunningCalls, of_other_threads_are_seen_until_they_return) {
  std::atomic<int> stage = 0;
  std::thread other([&] {
    const RunningCall call(name_call("sample", "sampler 'c'"));
    stage = 1;
    stage.notify_one();
    stage.wait(1);
  });
  stage.wait(0);
  EXPECT_EQ(running_now(), "sample of sampler 'c'");
  const RunningCall own(name_call("end", "sampler 'd'"));
  EXPECT_EQ(running_now(), "end of sampler 'd' and sample of sampler 'c'");
  stage = 2;
  stage.notify_one();
  other.join();
  EXPECT_EQ(running_now(), "end of sampler 'd'");
}

TEST(RunningCalls, that_are_cut_short_by_the_room_end_there) {
  const RunningCall call(name_call("plan", "scheduler 'a'"));
  char text[4];
  EXPECT_EQ(std::string(text, running_calls(text, sizeof(text))), "plan");
}

TEST(RunningCalls, that_have_returned_are_known_by_the_last_of_them) {
  { const RunningCall call(name_call("plan", "scheduler 'a'")); }
  { const RunningCall call(name_call("sample", "sampler 'b'")); }
  char text[200];
  EXPECT_EQ(std::string(text, last_call(text, sizeof(text))), "sample of sampler 'b'");
  std::thread other([] {
    char seen[200];
    EXPECT_GT(last_call(seen, sizeof(seen)), 0u) << "of another thread";
  });
  other.join();
}

TEST(CallWatch, names_the_call_that_does_not_return) {
  CallWatch watch;
  const RunningCall call(name_call("draft", "drafter 'x'"));
  watch.look(1000);
  EXPECT_EQ(watch.latest(1).name, nullptr);
  watch.look(5000);
  EXPECT_STREQ(watch.latest(4000).name, "draft of drafter 'x'");
  EXPECT_EQ(watch.latest(4000).running_ns, 4000);
  EXPECT_EQ(watch.latest(4001).name, nullptr);
}

TEST(CallWatch, does_not_take_many_short_calls_for_a_long_one) {
  CallWatch watch;
  for (int64_t now = 0; now < 10; ++now) {
    const RunningCall call(name_call("plan", "scheduler 'a'"));
    watch.look(now);
  }
  EXPECT_EQ(watch.latest(1).name, nullptr);
}

TEST(CallWatch, blames_the_outer_call_where_the_inner_ones_return) {
  CallWatch watch;
  const RunningCall plan(name_call("plan", "scheduler 'a'"));
  for (int64_t now = 0; now < 10; ++now) {
    const RunningCall inner(name_call("match", "kv_cache 'b'"));
    watch.look(now);
  }
  EXPECT_STREQ(watch.latest(5).name, "plan of scheduler 'a'");
}

TEST(CallWatch, blames_the_inner_call_where_both_do_not_return) {
  CallWatch watch;
  const RunningCall plan(name_call("plan", "scheduler 'a'"));
  const RunningCall inner(name_call("match", "kv_cache 'b'"));
  watch.look(0);
  watch.look(9);
  EXPECT_STREQ(watch.latest(5).name, "match of kv_cache 'b'");
}

}  // namespace
}  // namespace tenon
