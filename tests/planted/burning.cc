// A scheduler that plans as `continuous` does, and burns a share of each step. Against the promise
// of every scheduler it reads a clock: that is how it knows how long a step took.
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/scheduler/admission.h>
#include <tenon/sdk/scheduler/options.h>
#include <tenon/sdk/scheduler/plan_builder.h>

#include <chrono>

namespace {

using namespace tenon;

struct Options : sdk::SchedulingOptions {
  int64_t permille = 0;
};
constexpr OptionSpec kOwn[] = {
    sdk::integer<&Options::permille>("permille", 0, 0, 10000, "thousandths",
                                     "burns so much of the time since its plan before"),
};
constexpr auto kOptions = sdk::join_options<Options, sdk::kPolicyOptions, sdk::kLimitOptions,
                                            sdk::kAdmissionOptions, sdk::kPreemptionOptions>(kOwn);
TENON_CHECK_OPTIONS(kOptions.specs);

class BurningScheduler {
 public:
  BurningScheduler(const HostServices& host, const PipelineFacts&, const Options& options)
      : options_(options), plan_(host, options_), admission_(options_) {}

  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    const Clock::time_point called = Clock::now();
    // A step after an idle time is none that took so long.
    if (!view.running.empty()) burn(view.now_ns - planned_ns_);
    const auto piece = [this](uint32_t tokens) { return plan_.whole_or_piece(tokens); };
    plan_.begin(view, ledger, out);
    queue_.begin(options_.policy, view.waiting);
    admission_.let_in_overdue(plan_, piece);
    plan_.continue_prompts(piece, false);
    admission_.admit(plan_, queue_, piece);
    if (plan_.empty()) {
      plan_.advance_decodes(false);
      plan_.continue_prompts(piece, true);
    }
    planned_ns_ = view.now_ns + in_ns(Clock::now() - called);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static int64_t in_ns(Clock::duration time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  }

  // The engine's clock says how long a step took, since it stands still while another arm of a
  // comparison has its turn.
  void burn(int64_t step_ns) {
    const Clock::time_point end =
        Clock::now() + std::chrono::nanoseconds(step_ns * options_.permille / 1000);
    while (Clock::now() < end) {
    }
  }

  Options options_;
  sdk::PlanBuilder plan_;
  sdk::PolicyQueue queue_;
  sdk::Admission admission_;
  int64_t planned_ns_ = 0;  // when the latest plan was made
};

constexpr PluginDescriptor kBurning =
    sdk::with_facts(sdk::descriptor<Scheduler, BurningScheduler, Options>(
                        {.id = "test.burning",
                         .version = "1.0.0",
                         .summary = "plans as continuous does, and burns a share of each step",
                         .license = "Apache-2.0"},
                        kOptions.specs),
                    sdk::kSchedulerFacts);

}  // namespace

TENON_PLUGIN_LIBRARY(&kBurning)
