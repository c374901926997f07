// A scheduler that plans as `continuous` does, and burns a share of each step. Against the promise
// of every scheduler it reads a clock: its thread's processor time, since the time of day would
// have it burn more than its share where other processes want the processor.
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/scheduler/admission.h>
#include <tenon/sdk/scheduler/options.h>
#include <tenon/sdk/scheduler/plan_builder.h>

#include <ctime>

namespace {

using namespace tenon;

struct Options : sdk::SchedulingOptions {
  int64_t permille = 0;
};
constexpr OptionSpec kOwn[] = {
    sdk::integer<&Options::permille>("permille", 0, 0, 10000, "thousandths",
                                     "burns so much of the thread's time since its plan before"),
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
    if (!view.running.empty()) burn(cpu_ns() - planned_ns_);
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
    planned_ns_ = cpu_ns();
  }

 private:
  // Of the calling thread, which computes steps too.
  static int64_t cpu_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  }

  void burn(int64_t step_ns) const {
    const int64_t end = cpu_ns() + step_ns * options_.permille / 1000;
    while (cpu_ns() < end) {
    }
  }

  Options options_;
  sdk::PlanBuilder plan_;
  sdk::PolicyQueue queue_;
  sdk::Admission admission_;
  int64_t planned_ns_ = 0;  // the thread's time when the latest plan was made
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
