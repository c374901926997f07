// Chunked prefill: each step computes a bounded number of tokens, the next token of everything that
// decodes first, then pieces of prompts as far as the budget goes. So a long prompt never keeps
// those waiting who are in the middle of their answer.
//
// After Sarathi-Serve (Agrawal et al., OSDI 2024). The steps themselves are made by
// <tenon/sdk/scheduler/chunk_planner.h>, the automatic budget by
// <tenon/sdk/scheduler/step_budget.h>.
#include <tenon/extensions/decodes_first.h>
#include <tenon/extensions/steady_plans.h>
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/scheduler/chunk_planner.h>
#include <tenon/sdk/scheduler/options.h>

namespace tenon {
namespace {

struct Options : sdk::SchedulingOptions {};
constexpr auto kOptions =
    sdk::join_options<Options, sdk::kPolicyOptions, sdk::kLimitOptions, sdk::kChunkOptions,
                      sdk::kAdmissionOptions, sdk::kPreemptionOptions>();
TENON_CHECK_OPTIONS(kOptions.specs);

class ChunkedScheduler {
 public:
  ChunkedScheduler(const HostServices& host, const PipelineFacts&, const Options& options)
      : options_(options), planner_(host, options_) {}

  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out, uint32_t granted = 0) {
    queue_.begin(options_.policy, view.waiting);
    planner_.plan(view, ledger, out, queue_, granted);
  }

  const void* extension(std::string_view id) const {
    if (id == kDecodesFirst) return &decodes_first_;
    return id == kSteadyPlans ? &steady_ : nullptr;
  }

 private:
  Options options_;
  sdk::ChunkPlanner planner_;
  sdk::PolicyQueue queue_;
  const SteadyPlans steady_{.self = this, .pass = [](void* self, const StepCost& last) noexcept {
                              static_cast<ChunkedScheduler*>(self)->planner_.observe(last);
                            }};
  const DecodesFirst decodes_first_{
      .self = this,
      .rank =
          [](void* self, const SequenceView& sequence) noexcept {
            return sdk::policy_key(static_cast<ChunkedScheduler*>(self)->options_.policy, sequence,
                                   0)
                .rank;
          },
      .decodes_first =
          [](void* self, const SchedulerView& view, uint32_t decoding) noexcept {
            return static_cast<ChunkedScheduler*>(self)->planner_.decodes_first(view, decoding);
          },
      .plan = [](void* self, const SchedulerView& view, uint32_t decoding, KvLedger& ledger,
                 PlanOut& out) noexcept -> Status {
        return sdk::guard([&] {
          static_cast<ChunkedScheduler*>(self)->plan(view, ledger, out, decoding);
          return Status();
        });
      }};
};

constexpr PluginDescriptor kChunked = sdk::with_facts(
    sdk::descriptor<Scheduler, ChunkedScheduler, Options>(
        {.id = "chunked",
         .version = "1.0.0",
         .summary = "decodes first and fills each step with pieces of prompts up to a budget",
         .license = "Apache-2.0"},
        kOptions.specs),
    sdk::kSchedulerFacts);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kChunked)
