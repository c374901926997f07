// Request-level batching: a batch is taken, runs until the last of it has ended, then the next one
// is taken. The baseline that iteration-level batching is measured against.
//
// Rows of sequences that have ended are not computed, but they stay reserved until the batch is
// over; the plan reports them as idle rows.
#include <tenon/scheduler.h>
#include <tenon/sdk/plan_builder.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

struct Options {
  int64_t batch_sequences = 0;
};
constexpr OptionSpec kOptions[] = {
    sdk::integer_or_auto<&Options::batch_sequences>(
        "batch_sequences", 1, 1 << 20, "sequences",
        "size of a batch; auto (0) takes the pipeline's max_sequences"),
};
TENON_CHECK_OPTIONS(kOptions);

class StaticScheduler final : public Scheduler {
 public:
  StaticScheduler(const HostServices&, const PipelineFacts&, const Options& options)
      : options_(options) {}

  Status on_event(const SequenceEvent& event) noexcept override {
    const bool over = event.kind == EventKind::finished || event.kind == EventKind::aborted;
    if (over) std::erase(members_, event.seq);
    return {};
  }

  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    return sdk::guard([&] {
      if (view.running.empty() && members_.empty()) take_batch(view, ledger);
      sdk::PlanBuilder plan(view, ledger, out);
      compute_prompts(view, plan);
      if (plan.empty()) {
        plan.advance_running([&](uint32_t tokens) { return plan.whole_or_piece(tokens); });
      }
      const uint64_t held = plan.running() + plan.admitted();
      out.idle_rows = static_cast<uint32_t>(batch_rows_ > held ? batch_rows_ - held : 0);
      return Status();
    });
  }

 private:
  uint32_t batch_size(const SchedulerLimits& limits) const {
    if (options_.batch_sequences == 0) return limits.max_sequences;
    return static_cast<uint32_t>(std::min<int64_t>(options_.batch_sequences, limits.max_sequences));
  }

  // As many of those that wait as there are rows, and memory for their prompts.
  void take_batch(const SchedulerView& view, KvLedger& ledger) {
    batch_rows_ = 0;
    const uint32_t size = batch_size(view.limits);
    uint64_t free = ledger.free_tokens();
    for (const SequenceView& sequence : view.waiting) {
      const uint64_t needed = ledger.cost(sequence.seq, sequence.known_tokens);
      const bool fits = batch_rows_ + sequence.samples <= size && needed <= free;
      if (!members_.empty() && !fits) return;
      members_.push_back(sequence.seq);
      batch_rows_ += sequence.samples;
      free -= std::min(free, needed);
    }
  }

  bool is_member(SeqId seq) const {
    return std::find(members_.begin(), members_.end(), seq) != members_.end();
  }

  // Prompts of the batch that are not computed yet, those of preempted members among them.
  void compute_prompts(const SchedulerView& view, sdk::PlanBuilder& plan) {
    for (const SequenceView& sequence : view.running) {
      const uint32_t left = plan.left(sequence);
      if (left > 1) plan.grant(sequence, plan.whole_or_piece(left));
    }
    for (const SequenceView& sequence : view.waiting) {
      if (!is_member(sequence.seq)) continue;
      if (!plan.has_slots(sequence, view.limits.max_sequences)) return;
      if (!plan.admit(sequence, plan.whole_or_piece(plan.left_behind_prefix(sequence)))) return;
    }
  }

  Options options_;
  std::vector<SeqId> members_;  // of the batch, not ended; forked samples are not among them
  uint64_t batch_rows_ = 0;     // that the batch began with
};

constexpr Fact kProvides[] = {
    {.key = "sched.emits",
     .op = FactOp::in,
     .number = 0,
     .words = "whole_prompts chunks preemption"},
};
constexpr PluginDescriptor kStatic =
    sdk::with_facts(sdk::descriptor<Scheduler, StaticScheduler, Options>(
                        {.interface = kSchedulerInterface,
                         .id = "static",
                         .version = "1.0.0",
                         .summary = "runs one batch to its end before it takes the next",
                         .license = "Apache-2.0"},
                        kOptions),
                    kProvides);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kStatic)
