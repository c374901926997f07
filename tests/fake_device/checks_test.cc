// engine.guard = "checks": the checks in addition to those of every answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <functional>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

using testing::HasSubstr;

EngineOptions closely() {
  EngineOptions options = usual_engine_options();
  options.check_calls = true;
  return options;
}

// Plans soundly, and does something else besides in its second plan.
class AlsoDoes final : public Scheduler {
 public:
  using Deed = std::function<void(const SchedulerView&)>;
  AlsoDoes(Scheduler& real, Deed deed) : real_(real), deed_(std::move(deed)) {}
  Status on_event(const SequenceEvent& event) noexcept override { return real_.on_event(event); }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    Status status = real_.plan(view, ledger, out);
    if (++plans_ == 2) deed_(view);
    return status;
  }

 private:
  Scheduler& real_;
  Deed deed_;
  int plans_ = 0;
};

void round_upwards(const SchedulerView&) {
  std::fesetround(FE_UPWARD);
}
void change_a_sequence(const SchedulerView& view) {
  for (const auto& list : {view.running, view.waiting}) {
    for (const SequenceView& sequence : list) const_cast<SequenceView&>(sequence).priority = 7;
  }
}

struct CheckedOutcome {
  std::vector<TokenId> ids;
  std::string fault;
  int rounding = FE_TONEAREST;
};

CheckedOutcome run_beside(const AlsoDoes::Deed& deed, EngineOptions engine) {
  LoadedPlugin<Scheduler> real("scheduler", "continuous");
  AlsoDoes scheduler(*real, deed);
  RigOptions options;
  options.own_scheduler = &scheduler;
  options.engine = std::move(engine);
  Rig rig(options);
  const RequestId id = rig.submit(greedy_request({1, 2, 3}, 12));
  rig.run();
  return {rig.result(id).ids(), rig.engine().last_fault(), std::fegetround()};
}

TEST(Checks, a_plan_that_changes_the_rounding_is_named_and_undone) {
  const CheckedOutcome outcome = run_beside(round_upwards, closely());
  EXPECT_THAT(outcome.fault, HasSubstr("scheduler 'continuous': plan left this thread computing "
                                       "with another floating-point state – expected"));
  EXPECT_EQ(outcome.rounding, FE_TONEAREST);
}

TEST(Checks, a_plan_that_changes_what_it_is_shown_is_named) {
  const CheckedOutcome outcome = run_beside(change_a_sequence, closely());
  EXPECT_THAT(outcome.fault, HasSubstr("plan changed the sequences that it was shown"));
}

TEST(Checks, without_them_the_rounding_is_undone_and_nothing_is_said) {
  const CheckedOutcome outcome = run_beside(round_upwards, usual_engine_options());
  EXPECT_EQ(outcome.fault, "");
  EXPECT_EQ(outcome.rounding, FE_TONEAREST);
}

TEST(Checks, no_token_changes_with_them) {
  const auto nothing = [](const SchedulerView&) {};
  const CheckedOutcome plain = run_beside(nothing, usual_engine_options());
  const CheckedOutcome checked = run_beside(nothing, closely());
  EXPECT_EQ(checked.fault, "");
  EXPECT_EQ(checked.ids, plain.ids);
  EXPECT_EQ(run_beside(round_upwards, closely()).ids, plain.ids);
}

}  // namespace
}  // namespace tenon
