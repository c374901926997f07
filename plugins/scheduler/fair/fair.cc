// Fair shares: tenants that have work waiting are served equally, however much each of them sends.
//
// Whom to admit next follows virtual token counters (fair_shares.h); the steps are those of the
// chunked scheduler (<tenon/sdk/scheduler/chunk_planner.h>). Work-conserving: what one tenant does
// not use, others get.
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/scheduler/chunk_planner.h>
#include <tenon/sdk/scheduler/options.h>

#include "plugins/scheduler/fair/fair_shares.h"

namespace tenon {
namespace {

struct Options : sdk::SchedulingOptions {
  double input_weight = 1.0;
  double output_weight = 2.0;
};
constexpr OptionSpec kOwn[] = {
    sdk::real<&Options::input_weight>("input_weight", 1.0, 0.0, 1000.0, "",
                                      "what a computed prompt token counts"),
    sdk::real<&Options::output_weight>("output_weight", 2.0, 0.0, 1000.0, "",
                                       "what a generated token counts"),
};
constexpr auto kOptions = sdk::join_options<Options, sdk::kLimitOptions, sdk::kChunkOptions,
                                            sdk::kAdmissionOptions, sdk::kPreemptionOptions>(kOwn);
TENON_CHECK_OPTIONS(kOptions.specs);

class FairScheduler {
 public:
  FairScheduler(const HostServices& host, const PipelineFacts&, const Options& options)
      : options_(options),
        planner_(host, options_),
        shares_({options.input_weight, options.output_weight}) {}

  void on_event(const SequenceEvent& event) { shares_.on_event(event); }

  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    shares_.begin(view.waiting, out);
    planner_.plan(view, ledger, out, shares_);
    shares_.end();
  }

 private:
  Options options_;
  sdk::ChunkPlanner planner_;
  FairShares shares_;
};

constexpr PluginDescriptor kFair =
    sdk::with_facts(sdk::descriptor<Scheduler, FairScheduler, Options>(
                        {.id = "fair",
                         .version = "1.0.0",
                         .summary = "serves tenants equally by the tokens that each was given",
                         .license = "Apache-2.0"},
                        kOptions.specs),
                    sdk::kSchedulerFacts);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kFair)
