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
    // A step after an idle time is none that took so long.
    if (!view.running.empty()) burn();
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
    planned_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void burn() {
    const Clock::duration step = Clock::now() - planned_;
    const Clock::time_point end = Clock::now() + step * options_.permille / 1000;
    while (Clock::now() < end) {
    }
  }

  Options options_;
  sdk::PlanBuilder plan_;
  sdk::PolicyQueue queue_;
  sdk::Admission admission_;
  Clock::time_point planned_;
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
