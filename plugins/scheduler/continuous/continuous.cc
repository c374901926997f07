// Iteration-level batching: who runs is decided anew at every step.
//
// After Orca (Yu et al., OSDI 2022) and the first form of vLLM (Kwon et al., SOSP 2023): waiting
// prompts are computed whole as soon as rows and memory are there; else everything that runs gets
// its next token. When memory runs short, a sequence is preempted. Plans are made by
// <tenon/sdk/scheduler/plan_builder.h>, waiting prompts let in by
// <tenon/sdk/scheduler/admission.h>; this file says in which order.
#include <tenon/extensions/steady_plans.h>
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/scheduler/admission.h>
#include <tenon/sdk/scheduler/options.h>
#include <tenon/sdk/scheduler/plan_builder.h>

namespace tenon {
namespace {

struct Options : sdk::SchedulingOptions {
  int64_t chunk_tokens = 0;
};
constexpr OptionSpec kOwn[] = {
    sdk::integer<&Options::chunk_tokens>(
        "chunk_tokens", 0, 0, 1 << 20, "tokens",
        "cuts prompts into pieces of this many tokens; 0 computes them whole"),
};
constexpr auto kOptions = sdk::join_options<Options, sdk::kPolicyOptions, sdk::kLimitOptions,
                                            sdk::kAdmissionOptions, sdk::kPreemptionOptions>(kOwn);
TENON_CHECK_OPTIONS(kOptions.specs);

class ContinuousScheduler {
 public:
  ContinuousScheduler(const HostServices& host, const PipelineFacts&, const Options& options)
      : options_(options), plan_(host, options_), admission_(options_) {}

  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    const auto piece = [this](uint32_t tokens) { return this->piece(tokens); };
    plan_.begin(view, ledger, out);
    queue_.begin(options_.policy, view.waiting);
    admission_.let_in_overdue(plan_, piece);
    plan_.continue_prompts(piece, false);
    admission_.admit(plan_, queue_, piece);
    if (plan_.empty()) {
      plan_.advance_decodes(false);
      plan_.continue_prompts(piece, true);
    }
  }

  // Nothing here depends on what steps cost.
  const void* extension(std::string_view id) const {
    return id == kSteadyPlans ? &steady_ : nullptr;
  }

 private:
  // How many of `tokens` that a prompt has left are computed now.
  uint32_t piece(uint32_t tokens) const {
    if (options_.chunk_tokens == 0) return plan_.whole_or_piece(tokens);
    const auto chunk = static_cast<uint32_t>(options_.chunk_tokens);
    return std::min({chunk, tokens, plan_.budget()});
  }

  Options options_;
  sdk::PlanBuilder plan_;
  sdk::PolicyQueue queue_;
  sdk::Admission admission_;
  const SteadyPlans steady_{.self = this, .pass = [](void*, const StepCost&) noexcept {}};
};

constexpr PluginDescriptor kContinuous = sdk::with_facts(
    sdk::descriptor<Scheduler, ContinuousScheduler, Options>(
        {.id = "continuous",
         .version = "1.1.0",
         .summary = "decides at every step who runs; computes waiting prompts whole, before all "
                    "else",
         .license = "Apache-2.0"},
        kOptions.specs),
    sdk::kSchedulerFacts);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kContinuous)
