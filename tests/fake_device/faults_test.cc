// Plugins and devices that fail: the fault stays where it belongs and the engine goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <functional>

#include "tests/fake_device/rig/masked_ledger.h"
#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// Runs everything with memory, as plainly as possible, until `misbehave` changes the plan.
class ScriptedScheduler final : public Scheduler {
 public:
  using Plan = std::function<Status(const SchedulerView&, KvLedger&, PlanOut&)>;
  explicit ScriptedScheduler(Plan misbehave) : misbehave_(std::move(misbehave)) {}

  Status on_event(const SequenceEvent& event) noexcept override {
    if (event.kind == refused_) return Status::error(StatusCode::failed, "no, thank you");
    return {};
  }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    ++plans;
    if (plans == 2 || always) return misbehave_(view, ledger, out);
    grant_all(view, ledger, out);
    return {};
  }
  static void grant_all(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    for (const auto& list : {view.running, view.waiting}) {
      for (const SequenceView& sequence : list) {
        const uint32_t left = sequence.known_tokens - sequence.computed_tokens;
        if (ledger.try_grow(sequence.seq, left, left).granted == left) {
          out.push({sequence.seq, left, 0});
        }
      }
    }
  }

  bool always = false;
  int plans = 0;
  std::optional<EventKind> refused_;

 private:
  Plan misbehave_;
};

// One bad plan in the middle costs nothing but a step, and is named.
std::string one_bad_plan(ScriptedScheduler::Plan bad) {
  ScriptedScheduler scheduler(std::move(bad));
  RigOptions options;
  options.scheduler = "static";
  options.own_scheduler = &scheduler;
  Rig rig(options);
  const Request request = greedy_request({1, 2, 3}, 6);
  const RequestId id = rig.submit(request);
  rig.run();
  EXPECT_EQ(rig.engine().totals().plan_faults, 1u);
  EXPECT_EQ(rig.result(id).ids(), oracle({61, 0}, request, 0, 256).ids);
  return rig.engine().last_fault();
}

TEST(BadPlan, that_returns_an_error_runs_nothing_and_gives_its_grants_back) {
  EXPECT_EQ(one_bad_plan([](const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
              ScriptedScheduler::grant_all(view, ledger, out);
              return Status::error(StatusCode::failed, "I am lost");
            }),
            "scheduler 'static': I am lost");
}

TEST(BadPlan, that_names_a_stranger_is_refused) {
  EXPECT_EQ(one_bad_plan([](const SchedulerView&, KvLedger&, PlanOut& out) {
              out.push({77, 1, 0});
              return Status();
            }),
            "scheduler 'static' broke its contract: the plan grants sequence 77 – there is no such "
            "sequence");
}

TEST(BadPlan, with_more_grants_than_room_is_refused) {
  EXPECT_EQ(
      one_bad_plan([](const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
        ledger.try_grow(view.running[0].seq, 1, 1);
        out.grants[0] = {view.running[0].seq, 1, 0};
        out.grant_count = 2;
        return Status();
      }),
      "scheduler 'static': plan made 2 grants – expected at most 1, for which there was room");
}

TEST(BadPlan, that_grants_twice_is_refused) {
  ScriptedScheduler scheduler([](const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    ledger.try_grow(view.running[0].seq, 1, 1);
    out.push({view.running[0].seq, 1, 0});
    out.push({view.running[0].seq, 1, 0});
    return Status();
  });
  RigOptions options;
  options.own_scheduler = &scheduler;
  Rig rig(options);
  rig.submit(greedy_request({1}, 4));
  rig.submit(greedy_request({2}, 4));
  rig.run();
  EXPECT_EQ(rig.engine().last_fault(),
            "scheduler 'continuous' broke its contract: the plan grants sequence 0 twice");
  EXPECT_EQ(rig.result(1).reason, FinishReason::length);
}

TEST(BadPlan, that_takes_more_than_the_ledger_granted_is_refused) {
  EXPECT_EQ(one_bad_plan([](const SchedulerView& view, KvLedger&, PlanOut& out) {
              out.push({view.running[0].seq, 1, 0});
              return Status();
            }),
            "scheduler 'static' broke its contract: the plan grants sequence 0 1 tokens – the "
            "ledger granted 0");
}

TEST(BadPlan, that_computes_more_than_is_known_is_refused) {
  EXPECT_EQ(one_bad_plan([](const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
              ledger.try_grow(view.running[0].seq, 1, 9);
              out.push({view.running[0].seq, 2, 0});
              return Status();
            }),
            "scheduler 'static' broke its contract: the plan grants sequence 0 2 tokens – it has 1 "
            "to compute");
}

TEST(BadPlan, with_drafts_that_nobody_offered_is_refused) {
  EXPECT_EQ(one_bad_plan([](const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
              ledger.try_grow(view.running[0].seq, 1, 1);
              out.push({view.running[0].seq, 1, 3});
              return Status();
            }),
            "scheduler 'static' broke its contract: the plan grants sequence 0 3 draft slots "
            "behind 1 of 1 tokens – 0 were offered, behind all known tokens");
}

TEST(BadPlan, that_is_over_the_budget_or_the_rows_is_refused) {
  ScriptedScheduler scheduler([](const SchedulerView&, KvLedger&, PlanOut&) { return Status(); });
  RigOptions options;
  options.scheduler = "static";
  options.own_scheduler = &scheduler;
  options.max_batch_tokens = 10;
  options.max_sequences = 2;
  {
    Rig rig(options);
    const RequestId id = rig.submit(greedy_request(std::vector<TokenId>(11, 1), 2));
    EXPECT_TRUE(rig.engine().run_until_idle(100).ok());
    EXPECT_THAT(rig.result(id).message,
                HasSubstr("the plan has 11 tokens – max_batch_tokens is 10"));
  }
  Rig rig(options);
  for (int i = 0; i < 3; ++i) rig.submit(greedy_request({1, 2}, 2));
  EXPECT_TRUE(rig.engine().run_until_idle(100).ok());
  EXPECT_THAT(rig.result(1).message,
              HasSubstr("the plan makes 3 sequences run – max_sequences is 2"));
  rig.expect_empty();
}

TEST(BadPlan, that_keeps_failing_ends_the_requests_with_its_message) {
  ScriptedScheduler scheduler([](const SchedulerView&, KvLedger&, PlanOut&) {
    return Status::error(StatusCode::failed, "I am lost");
  });
  scheduler.always = true;
  RigOptions options;
  options.own_scheduler = &scheduler;
  Rig rig(options);
  const RequestId id = rig.submit(greedy_request({1}, 4));
  rig.run();
  EXPECT_EQ(rig.result(id).reason, FinishReason::error);
  EXPECT_EQ(rig.result(id).message, "scheduler 'continuous': I am lost");
  EXPECT_EQ(scheduler.plans, 3);
}

TEST(BadPlan, that_is_always_empty_ends_the_requests_in_the_end) {
  ScriptedScheduler scheduler([](const SchedulerView&, KvLedger&, PlanOut&) { return Status(); });
  scheduler.always = true;
  RigOptions options;
  options.own_scheduler = &scheduler;
  options.engine.stall_steps = 50;
  Rig rig(options);
  const RequestId id = rig.submit(greedy_request({1}, 4));
  rig.run(51);
  EXPECT_EQ(rig.result(id).message,
            "scheduler 'continuous' planned nothing in 50 steps in a row – 1 sequences wait and 0 "
            "run – use another scheduler");
}

TEST(BadPlan, of_grants_that_are_not_used_leaves_no_memory_behind) {
  ScriptedScheduler scheduler([](const SchedulerView& view, KvLedger& ledger, PlanOut&) {
    EXPECT_EQ(ledger.try_grow(view.running[0].seq, 1, 1).granted, 1u);
    EXPECT_EQ(ledger.try_grow(view.waiting[0].seq, 100, 100).granted, 100u);
    return Status();
  });
  RigOptions options;
  options.own_scheduler = &scheduler;
  options.engine.plan_ahead = false;  // this plan is for a step after the first
  Rig rig(options);
  rig.submit(greedy_request({1, 2, 3}, 3));
  ASSERT_TRUE(rig.engine().step().ok());
  rig.submit(greedy_request(std::vector<TokenId>(100, 3), 3));
  ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_EQ(rig.usage().reserved_tokens, 16u);
  rig.run();
  EXPECT_EQ(rig.engine().totals().plan_faults, 0u);
}

TEST(BadScheduler, that_refuses_an_arrival_loses_that_request_only) {
  ScriptedScheduler scheduler([](const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    ScriptedScheduler::grant_all(view, ledger, out);
    return Status();
  });
  RigOptions options;
  options.own_scheduler = &scheduler;
  Rig rig(options);
  const RequestId good = rig.submit(greedy_request({1}, 4));
  ASSERT_TRUE(rig.engine().step().ok());
  scheduler.refused_ = EventKind::arrived;
  const RequestId bad = rig.submit(greedy_request({1}, 4));
  rig.run();
  EXPECT_EQ(rig.result(good).reason, FinishReason::length);
  EXPECT_EQ(rig.result(bad).message, "scheduler 'continuous' refused a request: no, thank you");
}

TEST(Device, that_cannot_launch_loses_the_requests_of_that_step_only) {
  Rig rig({});
  const RequestId first = rig.submit(greedy_request({1, 2}, 10));
  rig.device().faults.launch_fails_at = 3;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_EQ(rig.result(first).reason, FinishReason::error);
  EXPECT_EQ(rig.result(first).message, "executor 'fake' failed: injected: launch");
  rig.expect_empty();
  const Request request = greedy_request({5}, 6);
  const RequestId second = rig.submit(request);
  rig.run();
  EXPECT_EQ(rig.result(second).ids(), oracle({61, 0}, request, 0, 256).ids);
}

TEST(Device, that_cannot_collect_loses_the_requests_of_that_step_only) {
  RigOptions options;
  options.max_sequences = 1;
  Rig rig(options);
  const RequestId first = rig.submit(greedy_request({1, 2}, 10));
  const Request request = greedy_request({5}, 6);
  const RequestId second = rig.submit(request);
  rig.device().faults.collect_fails_at = 4;
  rig.run();
  EXPECT_EQ(rig.result(first).message, "executor 'fake' failed: injected: collect");
  EXPECT_EQ(rig.result(second).ids(), oracle({61, 0}, request, 0, 256).ids);
  EXPECT_EQ(rig.engine().totals().forward_faults, 1u);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A request whose prompt ends with such a row, in a batch with a sound one.
std::string message_of_a_row(const RigOptions& options, float logits, Request bad) {
  Rig rig(options);
  const Request request = greedy_request({5, 9}, 8);
  const RequestId good = rig.submit(request);
  bad.prompt = {8, 60};
  const RequestId failed = rig.submit(bad);
  rig.device().faults.nan_after = 60;
  rig.device().faults.strange = logits;
  EXPECT_TRUE(rig.engine().step().ok());
  rig.device().faults.nan_after.reset();
  rig.run();
  if (options.sampler == "standard") {
    EXPECT_EQ(rig.result(good).ids(), oracle({61, 0}, request, 0, 256).ids);
  }
  EXPECT_EQ(rig.result(good).message, "");
  EXPECT_EQ(rig.result(failed).tokens.size(), 0u);
  return rig.result(failed).message;
}

std::string no_finite_logit(const std::string& sampler, uint32_t position) {
  return "sampler '" + sampler + "' found no token at position " + std::to_string(position) +
         " – a row needs at least one finite logit that is allowed – the model's weights are at "
         "fault, or executor and kernels: fake";
}

TEST(Row, without_a_finite_logit_fails_its_request_only) {
  Request greedy = greedy_request({}, 8);
  Request drawn = greedy;
  drawn.sampling.temperature = 0.7f;
  drawn.sampling.top_p = 0.9f;
  Request reported = greedy;
  reported.sampling.logprobs = 3;
  Request beams = greedy;
  beams.beams = 2;
  Request samples = drawn;
  samples.samples = 2;
  for (const float logits : {kNan, kInfinity, -kInfinity}) {
    for (const Request& request : {greedy, drawn, reported, beams, samples}) {
      EXPECT_EQ(message_of_a_row({}, logits, request), no_finite_logit("standard", 2));
    }
  }
}

// A row is what it is, whatever its sampler makes of it.
TEST(Row, without_a_finite_logit_fails_where_its_sampler_does_not_look_at_it) {
  RigOptions options;
  options.sampler = "replay";
  options.sampler_options = "tokens=5,6,7";
  for (const float logits : {kNan, kInfinity, -kInfinity}) {
    EXPECT_EQ(message_of_a_row(options, logits, greedy_request({}, 8)),
              no_finite_logit("replay", 2));
  }
}

TEST(Row, of_a_prompt_that_is_scored_needs_a_finite_logit_too) {
  for (const float logits : {kNan, kInfinity}) {
    Rig rig({});
    Request request = greedy_request({8, 60, 9}, 2);
    request.prompt_logprobs = true;
    request.sampling.logprobs = 1;
    rig.device().faults.nan_after = 60;
    rig.device().faults.strange = logits;
    const RequestId id = rig.submit(request);
    rig.run();
    EXPECT_EQ(rig.result(id).message, no_finite_logit("standard", 2));
  }
}

// What a library does that was built with -ffast-math.
void round_towards_zero() {
  std::fesetround(FE_TOWARDZERO);
}

TEST(FloatingPoint, is_as_it_was_behind_every_call_of_a_plugin) {
  class Rounding final : public Drafter {
   public:
    Status bind(const ModelShape&, HiddenLayersOut&) noexcept override { return {}; }
    Status begin(SeqId, SeqId) noexcept override { return changed(); }
    Status end(SeqId) noexcept override { return changed(); }
    Status offer(std::span<const DraftRequest>, std::span<uint32_t> offered) noexcept override {
      std::fill(offered.begin(), offered.end(), 1);
      return changed();
    }
    Status draft(std::span<const DraftRequest>, std::span<DraftOut>) noexcept override {
      return changed();
    }
    Status accept(SeqId, std::span<const TokenId>, uint32_t, uint32_t) noexcept override {
      return changed();
    }
    Status measured(const DraftStepCost&) noexcept override { return changed(); }
    Status observe(std::span<const HiddenView>) noexcept override { return changed(); }

    int calls = 0;

   private:
    Status changed() {
      EXPECT_EQ(std::fegetround(), FE_TONEAREST) << "in call " << calls;
      round_towards_zero();
      ++calls;
      return {};
    }
  } drafter;
  LoadedPlugin<Scheduler> plugin("scheduler", "continuous");
  MaskedScheduler scheduler(*plugin);
  scheduler.after = [](const SchedulerView&, const PlanOut&) { round_towards_zero(); };
  RigOptions options;
  options.own_scheduler = &scheduler;
  options.drafter = &drafter;
  Rig rig(options);
  rig.submit(greedy_request({1, 2, 3}, 6));
  rig.run();
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  std::fesetround(FE_TONEAREST);
  EXPECT_GT(drafter.calls, 15);
}

TEST(Device, notices_a_slot_that_was_never_written) {
  // A drafter that claims progress which was never computed would do this; here the plan skips.
  FakeDevice device({8, 0});
  KvGroupGeometry group{DType::f32, 4, 4, 8};
  ExecutorSetup setup;
  setup.geometry = {16, 1, 1, &group};
  ASSERT_TRUE(device.load(setup).ok());
  const TokenId token = 3;
  const uint32_t position = 2, row = 0;
  const BlockId blocks[] = {1};
  const KvTableView table{blocks, {}, 0};
  const BatchSequence sequence{0, 0, 1, 0, 0};
  const uint32_t kv_tokens = 3;
  const BatchGroup groups{{&position, 1}, {&kv_tokens, 1}, {&table, 1}};
  BatchView batch;
  batch.step_id = 1;
  batch.rows = batch.padded_rows = 1;
  batch.tokens = {&token, 1};
  batch.positions = {&position, 1};
  batch.groups = {&groups, 1};
  batch.sequences = {&sequence, 1};
  batch.logits_rows = {&row, 1};
  ASSERT_TRUE(device.launch(batch).ok());
  Result<StepOutput> out = device.collect(1);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().message(), "sequence 0 reads position 0, which was never written");
}

}  // namespace
}  // namespace tenon
