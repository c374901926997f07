// Request-level batching: a batch is taken, runs until the last of it has ended, then the next one
// is taken. The baseline that iteration-level batching is measured against.
//
// Rows of sequences that have ended are not computed, but they stay reserved until the batch is
// over; the plan reports them as idle rows. Plans are made by <tenon/sdk/scheduler/plan_builder.h>;
// this file chooses the batch.
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/scheduler/admission.h>
#include <tenon/sdk/scheduler/options.h>
#include <tenon/sdk/scheduler/plan_builder.h>

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

struct Options : sdk::SchedulingOptions {
  Options() { watermark = 0.0; }
};
constexpr auto kOptions =
    sdk::join_options<Options, sdk::kPolicyOptions, sdk::kLimitOptions, sdk::kPreemptionOptions>();
TENON_CHECK_OPTIONS(kOptions.specs);

// Of those that wait, the members of a batch.
class MemberQueue {
 public:
  void begin(sdk::Policy policy, const SchedulerView& view, const std::vector<SeqId>& members) {
    queue_.begin(policy, view.waiting);
    members_ = &members;
  }
  const SequenceView* next() {
    const SequenceView* waiting = queue_.next();
    while (waiting != nullptr &&
           !std::binary_search(members_->begin(), members_->end(), waiting->seq)) {
      waiting = queue_.next();
    }
    return waiting;
  }

 private:
  sdk::PolicyQueue queue_;
  const std::vector<SeqId>* members_ = nullptr;
};

class StaticScheduler {
 public:
  StaticScheduler(const HostServices& host, const PipelineFacts&, const Options& options)
      : options_(options), plan_(host, options_), admission_(options_) {}

  void on_event(const SequenceEvent& event) {
    const bool over = event.kind == EventKind::finished || event.kind == EventKind::aborted;
    if (over) std::erase(members_, event.seq);
  }

  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    plan_.begin(view, ledger, out);
    if (view.running.empty() && members_.empty()) take_batch();
    // Prompts of the batch that are not computed yet, those of preempted members among them.
    const auto piece = [this](uint32_t tokens) { return plan_.whole_or_piece(tokens); };
    admission_.let_in_overdue(plan_, piece);
    plan_.continue_prompts(piece, false);
    members_waiting_.begin(options_.policy, view, members_);
    admission_.admit(plan_, members_waiting_, piece);
    if (plan_.empty()) {
      plan_.advance_decodes(false);
      plan_.continue_prompts(piece, true);
    }
    const uint64_t held = plan_.running() + plan_.admitted();
    out.idle_rows = static_cast<uint32_t>(batch_rows_ > held ? batch_rows_ - held : 0);
  }

 private:
  // As many of those that wait as there are rows, and memory for their prompts.
  void take_batch() {
    batch_rows_ = 0;
    uint64_t free = plan_.ledger().free_tokens();
    everyone_.begin(options_.policy, plan_.view().waiting);
    while (const SequenceView* sequence = everyone_.next()) {
      const uint64_t needed = plan_.ledger().cost(sequence->seq, sequence->known_tokens);
      const bool rows = batch_rows_ + sequence->samples <= plan_.limits().max_sequences;
      if (!members_.empty() && (!rows || needed > free)) break;
      members_.push_back(sequence->seq);
      batch_rows_ += sequence->samples;
      free -= std::min(free, needed);
    }
    std::sort(members_.begin(), members_.end());
  }

  Options options_;
  sdk::PlanBuilder plan_;
  sdk::Admission admission_;
  sdk::PolicyQueue everyone_;
  MemberQueue members_waiting_;
  std::vector<SeqId>
      members_;              // of the batch, not ended, sorted; forked samples are not among them
  uint64_t batch_rows_ = 0;  // that the batch began with
};

constexpr PluginDescriptor kStatic =
    sdk::with_facts(sdk::descriptor<Scheduler, StaticScheduler, Options>(
                        {.id = "static",
                         .version = "1.1.0",
                         .summary = "runs one batch to its end before it takes the next",
                         .license = "Apache-2.0"},
                        kOptions.specs),
                    sdk::kSchedulerFacts);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kStatic)
