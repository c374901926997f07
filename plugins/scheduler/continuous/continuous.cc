// Iteration-level batching: who runs is decided anew at every step.
//
// After Orca (Yu et al., OSDI 2022) and the first form of vLLM (Kwon et al., SOSP 2023): waiting
// prompts are computed whole as soon as rows and memory are there, first come, first served; else
// everything that runs gets its next token. When memory runs short, the latest admitted sequence
// is preempted and computed again later.
#include <tenon/scheduler.h>
#include <tenon/sdk/plan_builder.h>
#include <tenon/sdk/plugin.h>

namespace tenon {
namespace {

struct Options {
  int64_t chunk_tokens = 0;
  double watermark = 0.01;
};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::chunk_tokens>(
        "chunk_tokens", 0, 0, 1 << 20, "tokens",
        "cuts prompts into pieces of this many tokens; 0 computes them whole"),
    sdk::real<&Options::watermark>(
        "watermark", 0.01, 0.0, 0.9, "share of KV memory",
        "stays free when a prompt is admitted, so that running sequences can grow"),
};
TENON_CHECK_OPTIONS(kOptions);

class ContinuousScheduler final : public Scheduler {
 public:
  ContinuousScheduler(const HostServices&, const PipelineFacts&, const Options& options)
      : options_(options) {}

  Status on_event(const SequenceEvent&) noexcept override { return {}; }

  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    sdk::PlanBuilder plan(view, ledger, out);
    const auto piece = [&](uint32_t tokens) { return this->piece(plan, tokens); };
    continue_prompts(view, plan);
    admit(view, ledger, plan);
    if (plan.empty()) plan.advance_running(piece);
    return {};
  }

 private:
  // How many of `tokens` that a prompt has left are computed now.
  uint32_t piece(const sdk::PlanBuilder& plan, uint32_t tokens) const {
    if (options_.chunk_tokens == 0) return plan.whole_or_piece(tokens);
    const auto chunk = static_cast<uint32_t>(options_.chunk_tokens);
    return std::min({chunk, tokens, plan.budget()});
  }

  void continue_prompts(const SchedulerView& view, sdk::PlanBuilder& plan) const {
    for (const SequenceView& sequence : view.running) {
      const uint32_t left = plan.left(sequence);
      if (left > 1) plan.grant(sequence, piece(plan, left));
    }
  }

  // In order of arrival; one that does not fit yet is not overtaken. A prompt needs room for all of
  // it, also when only a piece is computed now, beside what prompts that were begun still need.
  void admit(const SchedulerView& view, KvLedger& ledger, sdk::PlanBuilder& plan) {
    if (view.waiting.empty()) return;
    total_tokens_ = std::max(total_tokens_, ledger.free_tokens());
    uint64_t reserve = watermark_tokens(ledger.cost(view.waiting.front().seq, 1));
    for (const SequenceView& sequence : view.running) {
      const uint32_t left = plan.left(sequence);
      if (left > 1) reserve += ledger.cost(sequence.seq, left);
    }
    for (const SequenceView& sequence : view.waiting) {
      if (!plan.has_slots(sequence, view.limits.max_sequences)) return;
      const uint64_t needed = ledger.cost(sequence.seq, plan.left(sequence));
      const bool alone = view.running.empty() && plan.empty();
      if (!alone && needed + reserve > ledger.free_tokens()) return;
      if (!plan.admit(sequence, piece(plan, plan.left_behind_prefix(sequence)))) return;
      reserve += ledger.cost(sequence.seq, plan.left(sequence));
    }
  }

  // In whole blocks, rounded down: a manager that has only few large blocks keeps none of them.
  uint64_t watermark_tokens(uint64_t block_tokens) const {
    const auto tokens = static_cast<uint64_t>(options_.watermark * total_tokens_);
    return block_tokens == 0 ? tokens : tokens / block_tokens * block_tokens;
  }

  Options options_;
  uint64_t total_tokens_ = 0;  // the most that was ever free: all of it, at the first plan
};

constexpr Fact kProvides[] = {
    {.key = "sched.emits",
     .op = FactOp::in,
     .number = 0,
     .words = "whole_prompts chunks preemption"},
};
constexpr PluginDescriptor kContinuous = sdk::with_facts(
    sdk::descriptor<Scheduler, ContinuousScheduler, Options>(
        {.interface = kSchedulerInterface,
         .id = "continuous",
         .version = "1.0.0",
         .summary = "admits prompts whole at every step, first come, first served; preempts the "
                    "latest",
         .license = "Apache-2.0"},
        kOptions),
    kProvides);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kContinuous)
