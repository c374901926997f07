// A scheduler for requests with deadlines: who has the least time to spare is let in first.
//
// Slack is what is left until the deadline once the work is taken off, at the pace that steps were
// measured to have (least slack first; Mok, 1983). Under overload that rule helps those who are
// late already and makes everyone else late too, so a request that cannot make it any more gives
// way: it waits as if its deadline were `patience` later. So does one that names no deadline,
// counted from its arrival. Nobody waits for ever: a deadline only comes nearer.
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/scheduler/chunk_planner.h>
#include <tenon/sdk/scheduler/options.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using namespace tenon;

struct Options : sdk::SchedulingOptions {
  int64_t patience = 10'000'000'000;
};
constexpr OptionSpec kOwn[] = {
    sdk::duration<&Options::patience>("patience", 10'000'000'000, 1'000'000, 3'600'000'000'000,
                                      "how much later one is wanted that names no deadline, or "
                                      "that is too late for it"),
};
constexpr auto kOptions = sdk::join_options<Options, sdk::kLimitOptions, sdk::kAdmissionOptions,
                                            sdk::kChunkOptions, sdk::kPreemptionOptions>(kOwn);
TENON_CHECK_OPTIONS(kOptions.specs);

// What a step takes, and a row of a prompt in it: moving averages of what was measured.
class Pace {
 public:
  void learn(const StepCost& step) {
    if (step.step_id == seen_ || step.rows == 0 || step.duration_ns == 0) return;
    seen_ = step.step_id;
    const auto duration = static_cast<double>(step.duration_ns);
    if (step.rows == step.sequences) return follow(step_ns_, duration);
    follow(row_ns_, std::max(duration - step_ns_, 0.0) / (step.rows - step.sequences));
  }
  // Of all that is left of a sequence: its prompt, then a step for each token it may still say.
  int64_t work_ns(const SequenceView& sequence) const {
    const uint32_t prompt = sequence.known_tokens - sequence.computed_tokens;
    const uint32_t answer = sequence.limit_tokens - sequence.known_tokens;
    return static_cast<int64_t>(prompt * row_ns_ + answer * step_ns_);
  }

 private:
  static void follow(double& average, double value) {
    average += (value - average) * (average == 0.0 ? 1.0 : 0.125);
  }
  uint64_t seen_ = 0;
  double step_ns_ = 0.0, row_ns_ = 0.0;
};

// Those that wait, the least slack first.
class SlackQueue {
 public:
  explicit SlackQueue(int64_t patience_ns) : patience_ns_(patience_ns) {}

  void begin(const SchedulerView& view, const Pace& pace) {
    waiting_ = view.waiting;
    next_ = 0;
    keys_.clear();
    for (size_t i = 0; i < waiting_.size(); ++i) {
      const SequenceView& one = waiting_[i];
      const int64_t work_ns = pace.work_ns(one);
      const bool named = one.deadline_ns != 0;
      const bool late = named && view.now_ns + work_ns > one.deadline_ns;
      const int64_t wanted_ns = named ? one.deadline_ns : one.arrival_ns;
      const int64_t latest_start_ns = wanted_ns + (named && !late ? 0 : patience_ns_) - work_ns;
      keys_.push_back({static_cast<double>(latest_start_ns), one.arrival_ns, one.seq,
                       static_cast<uint32_t>(i)});
    }
    std::sort(keys_.begin(), keys_.end());
  }
  // Null when there are no more.
  const SequenceView* next() {
    return next_ < keys_.size() ? &waiting_[keys_[next_++].index] : nullptr;
  }

 private:
  int64_t patience_ns_;
  std::span<const SequenceView> waiting_;
  std::vector<sdk::PolicyKey> keys_;
  size_t next_ = 0;
};

class LeastSlack {
 public:
  LeastSlack(const HostServices& host, const PipelineFacts&, const Options& options)
      : options_(options), queue_(options.patience), planner_(host, options_) {}

  // Grants, budgets and preemption are the planner's; who comes next is ours.
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    pace_.learn(view.last_step);
    queue_.begin(view, pace_);
    planner_.plan(view, ledger, out, queue_);
  }

 private:
  Options options_;
  Pace pace_;
  SlackQueue queue_;
  sdk::ChunkPlanner planner_;
};

constexpr PluginDescriptor kLeastSlack =
    sdk::with_facts(sdk::descriptor<Scheduler, LeastSlack, Options>(
                        {.id = "example.least_slack",
                         .version = "1.0.0",
                         .summary = "lets those in first that have the least time to spare",
                         .license = "Apache-2.0"},
                        kOptions.specs),
                    sdk::kSchedulerFacts);

}  // namespace

TENON_PLUGIN_LIBRARY(&kLeastSlack)
