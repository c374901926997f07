#include "core/engine/step/guards/stall_guard.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {
namespace {

// Longer than any delay that fills a batch.
constexpr int64_t kTellOfWaitNs = int64_t{5} * 1'000'000'000;

}  // namespace

// A plan on what is to come may be empty: the next is one on what is. And a scheduler may say that
// it waits on purpose, for a while.
void StallGuard::watch(const PlanOut& plan, const Step& step, Planning planning) {
  wake_ns_ = plan.grant_count == 0 ? plan.wake_ns : 0;
  if (planning == Planning::ahead) return;
  if (!step.empty() || context_.table.empty() || !context_.awaiting_kv.empty()) {
    return got_on();
  }
  const EngineOptions& options = context_.options;
  const int64_t now_ns = step.record.start_ns;
  if (plan.wake_ns > now_ns) {
    wait_on_purpose(plan.wake_ns, now_ns);
  } else if (++empty_plans_ >= options.stall_steps) {
    stalled("in " + std::to_string(options.stall_steps) + " steps in a row");
  }
}

// People are told of what lasts, each time later, and who waits for too long is let go.
void StallGuard::wait_on_purpose(int64_t wish_ns, int64_t now_ns) {
  const int64_t limit_ns = context_.options.longest_wait_ns;
  if (!waiting_since_ns_) {
    waiting_since_ns_ = now_ns;
    tell_ns_ = kTellOfWaitNs;
  }
  const int64_t waited_ns = now_ns - *waiting_since_ns_;
  if (waited_ns >= limit_ns) {
    return stalled("on purpose for " + approximate_duration(waited_ns) + " (engine.wait_limit)");
  }
  if (waited_ns >= tell_ns_) {
    tell_of_wait(waited_ns, wish_ns - now_ns);
    tell_ns_ = 4 * waited_ns;
  }
  wake_ns_ = std::min(wish_ns, *waiting_since_ns_ + std::min(tell_ns_, limit_ns));
}

void StallGuard::tell_of_wait(int64_t waited_ns, int64_t left_ns) const {
  log(LogLevel::warning, "engine",
      "scheduler " + in_quotes(context_.parts.scheduler_name) +
          " has planned nothing on purpose for " + approximate_duration(waited_ns) + ", while " +
          how_many_wait() + "; it wishes to wait " + approximate_duration(left_ns) +
          " more – after " + format_duration(context_.options.longest_wait_ns) +
          " (engine.wait_limit) they end with an error");
}

std::string StallGuard::how_many_wait() const {
  const SequenceTable& table = context_.table;
  return std::to_string(table.waiting().size()) + " sequences wait and " +
         std::to_string(table.running().size()) + " run";
}

void StallGuard::stalled(const std::string& how_long) {
  empty_plans_ = 0;
  waiting_since_ns_.reset();
  ++context_.totals.plan_faults;
  context_.fail_sequences(context_.table.all(), "scheduler " +
                                                    in_quotes(context_.parts.scheduler_name) +
                                                    " planned nothing " + how_long + " – " +
                                                    how_many_wait() + " – use another scheduler");
}

}  // namespace tenon
