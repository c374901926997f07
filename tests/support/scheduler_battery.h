// What every scheduler keeps to, over views and memory made by hand: what is in flight, refused
// releases, tokens that must be computed together, and the limits of a step.
//
//   INSTANTIATE_TEST_SUITE_P(Fair, EveryScheduler, testing::Values("fair"));
#pragma once

#include <gtest/gtest.h>
#include <tenon/scheduler.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/plugin_instance.h"

namespace tenon {

// Memory of so many tokens, and releases that may be refused.
class ScriptedLedger final : public KvLedger {
 public:
  CachedTokens cached(SeqId seq) noexcept override { return {ready[seq], 0}; }
  uint64_t cost(SeqId, uint32_t tokens) noexcept override { return tokens; }
  GrowResult try_grow(SeqId seq, uint32_t at_least, uint32_t at_most) noexcept override {
    ++calls;
    if (at_least > free || stuck.count(seq) > 0) return {};
    const auto given = static_cast<uint32_t>(std::min<uint64_t>(at_most, free));
    free -= given;
    const uint32_t reused = found.count(seq) > 0 ? found[seq] : ready[seq];
    granted[seq] += given;
    reuse[seq] = reused;
    return {given, reused};
  }
  HeldTokens held(SeqId seq) noexcept override {
    return stuck.count(seq) > 0 ? HeldTokens{} : HeldTokens{10, 10};
  }
  bool release(SeqId seq, ReleaseHow) noexcept override {
    ++calls;
    asked.push_back(seq);
    if (refuses || granted.count(seq) > 0) return false;
    free += 10;
    released.push_back(seq);
    return true;
  }
  uint64_t free_tokens() noexcept override { return free; }

  uint64_t free = 1u << 20;
  bool refuses = false;
  std::map<SeqId, uint32_t> ready;  // what the cache says it has …
  std::map<SeqId, uint32_t> found;  // … and what is found, where that is less
  std::map<SeqId, bool> stuck;      // holds nothing, and is never granted anything
  std::map<SeqId, uint32_t> granted, reuse;
  std::vector<SeqId> asked, released;
  uint32_t calls = 0;
};

inline SequenceView decoding_view(SeqId seq, uint32_t in_flight = 0) {
  SequenceView view;
  view.seq = seq;
  view.prompt_tokens = 10;
  view.known_tokens = 15;
  view.computed_tokens = 14;
  view.in_flight_tokens = in_flight;
  view.arrival_ns = seq;
  return view;
}
inline SequenceView prompt_view(SeqId seq, uint32_t tokens, uint32_t computed = 0,
                                uint32_t whole = 0) {
  SequenceView view;
  view.seq = seq;
  view.prompt_tokens = view.known_tokens = tokens;
  view.computed_tokens = computed;
  view.whole_tokens = whole;
  view.arrival_ns = seq;
  return view;
}

class EveryScheduler : public testing::TestWithParam<const char*> {
 protected:
  // Steps of a pipeline with this limit. What arrives is told once.
  std::vector<Grant> plan(const std::vector<SequenceView>& running,
                          const std::vector<SequenceView>& waiting, ScriptedLedger& ledger,
                          uint32_t max_batch_tokens = 512) {
    for (const auto* views : {&running, &waiting}) {
      for (const SequenceView& view : *views) arrive(view);
    }
    SchedulerView view;
    view.step_id = ++step_;
    view.limits = {64, max_batch_tokens, 4096};
    view.kv_tokens = 1u << 20;
    view.running = running;
    view.waiting = waiting;
    std::vector<Grant> grants(running.size() + waiting.size());
    PlanOut out;
    out.grants = grants;
    EXPECT_EQ(scheduler_->plan(view, ledger, out).message(), "");
    EXPECT_EQ(out.wake_ns, 0);
    grants.resize(out.grant_count);
    return grants;
  }
  void finish(SeqId seq) {
    SequenceEvent event;
    event.kind = EventKind::finished;
    event.seq = seq;
    EXPECT_TRUE(scheduler_->on_event(event).ok());
    arrived_.erase(seq);
  }

  static uint32_t tokens_of(const std::vector<Grant>& grants, SeqId seq) {
    for (const Grant& grant : grants) {
      if (grant.seq == seq) return grant.tokens;
    }
    return 0;
  }

 private:
  void arrive(const SequenceView& view) {
    if (!arrived_.emplace(view.seq, true).second) return;
    SequenceEvent event;
    event.seq = view.seq;
    event.tenant = view.tenant;
    event.prompt_tokens = view.prompt_tokens;
    event.known_tokens = view.known_tokens;
    EXPECT_TRUE(scheduler_->on_event(event).ok());
  }

  TestHost host_;
  PluginInstance<Scheduler> scheduler_{GetParam(), host_};
  std::map<SeqId, bool> arrived_;
  uint64_t step_ = 0;
};

TEST_P(EveryScheduler, serves_what_is_in_flight_like_everyone_else) {
  ScriptedLedger ledger;
  const auto grants = plan({decoding_view(1), decoding_view(2, 1)}, {}, ledger);
  EXPECT_EQ(tokens_of(grants, 1), 1u);
  EXPECT_EQ(tokens_of(grants, 2), 1u);
  SequenceView piece = prompt_view(3, 100, 40);
  piece.in_flight_tokens = 40;
  EXPECT_EQ(tokens_of(plan({piece}, {}, ledger), 3), 60u);
}

TEST_P(EveryScheduler, never_asks_for_memory_that_is_in_flight) {
  ScriptedLedger ledger;
  ledger.free = 0;
  EXPECT_TRUE(
      plan({decoding_view(1, 1), decoding_view(2, 1), decoding_view(3, 1)}, {}, ledger).empty());
  EXPECT_TRUE(ledger.asked.empty());
}

TEST_P(EveryScheduler, preempts_nobody_for_a_beam_whose_group_lost_its_memory) {
  ScriptedLedger ledger;
  ledger.free = 0;
  SequenceView first = decoding_view(2), second = decoding_view(3);
  first.fork_group = second.fork_group = 7;
  ledger.stuck[2] = true;
  const auto grants = plan({decoding_view(1), decoding_view(4), first, second}, {}, ledger);
  EXPECT_EQ(tokens_of(grants, 1), 1u);
  EXPECT_EQ(tokens_of(grants, 4), 1u);
  EXPECT_EQ(ledger.released, (std::vector<SeqId>{3})) << "the other beam went with it";
}

TEST_P(EveryScheduler, takes_a_refused_release_as_an_answer) {
  ScriptedLedger ledger;
  ledger.refuses = true;
  ledger.stuck[1] = true;
  std::vector<SequenceView> running;
  for (SeqId seq = 1; seq <= 20; ++seq) running.push_back(decoding_view(seq));
  for (int i = 0; i < 100; ++i) {
    ledger.calls = 0;
    const auto grants = plan(running, {}, ledger);
    EXPECT_LT(ledger.calls, 100u);
    EXPECT_EQ(tokens_of(grants, 1), 0u);
    EXPECT_EQ(grants.size(), 19u) << "the others go on";
    ledger.granted.clear();
  }
}

TEST_P(EveryScheduler, grants_tokens_that_belong_together_all_or_not_at_all) {
  ScriptedLedger ledger;
  // Larger than what a scheduler takes of a prompt by itself, smaller than the step.
  const auto all = plan({prompt_view(1, 600, 0, 500)}, {}, ledger);
  EXPECT_GE(tokens_of(all, 1), 500u);
  finish(1);
  EXPECT_TRUE(plan({prompt_view(2, 600, 0, 513)}, {}, ledger).empty()) << "no step has room";
  finish(2);
  ledger.free = 300;
  EXPECT_TRUE(plan({prompt_view(3, 600, 0, 400)}, {}, ledger).empty()) << "no memory";
}

TEST_P(EveryScheduler, counts_what_the_cache_has_of_tokens_that_belong_together) {
  ScriptedLedger ledger;
  ledger.ready[1] = 100;
  EXPECT_GE(tokens_of(plan({}, {prompt_view(1, 560, 0, 550)}, ledger), 1), 450u);
  // What was there is gone when it is asked for.
  finish(1);
  ledger.ready[2] = 100;
  ledger.found[2] = 0;
  EXPECT_EQ(tokens_of(plan({}, {prompt_view(2, 512, 0, 512)}, ledger), 2), 0u);
}

TEST_P(EveryScheduler, keeps_nobody_waiting_whose_tokens_belong_together) {
  ScriptedLedger ledger;
  std::vector<SequenceView> running = {prompt_view(1, 600, 10, 510)};
  for (SeqId seq = 2; seq < 20; ++seq) running.push_back(decoding_view(seq));
  uint32_t granted = 0;
  for (int i = 0; i < 3; ++i) {
    granted = std::max(granted, tokens_of(plan(running, {}, ledger), 1));
    ledger.granted.clear();
  }
  EXPECT_GE(granted, 510u);
}

TEST_P(EveryScheduler, keeps_its_promises_whatever_the_view_and_the_ledger) {
  std::mt19937 random(11);
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random() % bound); };
  SeqId next = 1;
  for (int round = 0; round < 400; ++round) {
    std::vector<SequenceView> running, waiting;
    const uint32_t limit = 64 + below(1000);
    for (uint32_t i = below(30); i > 0; --i) {
      const uint32_t known = 2 + below(700);
      SequenceView view = prompt_view(next++, known, below(2) == 0 ? known - 1 : below(known));
      const uint32_t left = known - view.computed_tokens;
      if (below(3) == 0) view.whole_tokens = below(std::min(left, limit) + 1);
      if (below(2) == 0) view.in_flight_tokens = below(view.computed_tokens + 1);
      if (left == 1) view.offered_drafts = below(6);
      running.push_back(view);
    }
    for (uint32_t i = below(10); i > 0; --i) {
      const uint32_t known = 2 + below(700);
      waiting.push_back(
          prompt_view(next++, known, 0, below(2) * below(std::min(known, limit) + 1)));
    }
    ScriptedLedger ledger;
    ledger.free = below(3000);
    ledger.refuses = below(3) == 0;
    for (const SequenceView& view : waiting) {
      if (below(2) == 0) ledger.ready[view.seq] = below(view.known_tokens);
      if (below(4) == 0) ledger.found[view.seq] = below(ledger.ready[view.seq] + 1);
    }
    const auto grants = plan(running, waiting, ledger, limit);
    EXPECT_LT(ledger.calls, 2000u);
    std::map<SeqId, SequenceView> views;
    for (const auto* list : {&running, &waiting}) {
      for (const SequenceView& view : *list) views[view.seq] = view;
    }
    uint64_t rows = 0;
    for (const Grant& grant : grants) {
      ASSERT_EQ(views.count(grant.seq), 1u) << "each once";
      const SequenceView view = views[grant.seq];
      views.erase(grant.seq);
      const uint32_t reused = ledger.reuse[grant.seq];
      rows += grant.tokens + grant.drafts;
      ASSERT_GE(grant.tokens, 1u);
      ASSERT_LE(grant.tokens, view.known_tokens - view.computed_tokens - reused);
      ASSERT_GE(grant.tokens + reused, view.whole_tokens);
      ASSERT_LE(grant.tokens + grant.drafts, ledger.granted[grant.seq]);
      ASSERT_EQ(std::count(ledger.released.begin(), ledger.released.end(), grant.seq), 0);
    }
    ASSERT_LE(rows, limit);
    for (const SequenceView& view : running) {
      const auto asked = std::count(ledger.asked.begin(), ledger.asked.end(), view.seq);
      ASSERT_TRUE(view.in_flight_tokens == 0 || asked == 0);
    }
    for (const auto* list : {&running, &waiting}) {
      for (const SequenceView& view : *list) finish(view.seq);
    }
  }
}

inline std::string scheduler_name(const testing::TestParamInfo<const char*>& given) {
  return given.param;
}

}  // namespace tenon
