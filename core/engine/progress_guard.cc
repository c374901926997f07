#include "core/engine/progress_guard.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr size_t kNamed = 8;  // sequences that a message describes

std::string text(uint64_t number) {
  return std::to_string(number);
}

const char* awaited_by(const Sequence& sequence) {
  if (is_held_back(sequence)) return "waits for other beams of its search";
  return sequence.state == SequenceState::waiting ? "waits for memory or a row"
                                                  : "waits for a step";
}

}  // namespace

void ProgressGuard::watch(const Step& step) {
  preemptions_ += step.record.preemptions;
  if (got_on(step)) {
    futile_steps_ = preemptions_ = 0;
    return;
  }
  if (step.empty() || ++futile_steps_ < context_.options.futile_steps) return;
  if (futile_steps_ < patience()) return;
  const std::string message = verdict();
  futile_steps_ = preemptions_ = 0;
  ++context_.totals.plan_faults;
  context_.fail_sequences(context_.table.all(), message);
}

bool ProgressGuard::got_on(const Step& step) {
  const uint64_t ended = std::exchange(samples_ended_, context_.totals.samples_ended);
  bool further = ended != samples_ended_ || step.record.tokens > 0;
  for (const Share& share : step.shares) {
    Sequence& sequence = *share.sequence;
    further |= sequence.canvas != nullptr && share.result_count > 0;
    if (sequence.computed <= sequence.furthest) continue;
    sequence.furthest = sequence.computed;
    further = true;
  }
  return further;
}

uint64_t ProgressGuard::patience() const {
  uint64_t tokens = 0;
  for (const Sequence* sequence : context_.table.all()) tokens += sequence->known;
  return context_.options.futile_steps + tokens;
}

std::string ProgressGuard::verdict() const {
  const KvUsage usage = context_.kv_usage();
  std::string message = "nobody got on in " + text(futile_steps_) + " steps with " +
                        text(preemptions_) + " preemptions – ";
  const std::vector<Sequence*> all = context_.table.all();
  for (size_t i = 0; i < std::min(all.size(), kNamed); ++i) message += description(*all[i]) + "; ";
  if (all.size() > kNamed) message += text(all.size() - kNamed) + " more; ";
  message += text(usage.free_tokens) + " of " + text(usage.total_tokens) +
             " tokens of K/V are free – scheduler '" + context_.parts.scheduler_name +
             "' goes round in circles over kv_cache '" + context_.parts.kv_cache_name +
             "' – use another scheduler, or raise kv_cache.memory";
  return message;
}

std::string ProgressGuard::description(const Sequence& sequence) const {
  KvMatch found;
  const Status status = context_.parts.kv_cache->match(sequence.id, sequence.known_tokens(),
                                                       sequence.computed, found);
  const uint64_t held = status.ok() ? found.tokens_held : 0;
  return "sequence " + text(sequence.id) + " of request " + text(sequence.request->id) + " has " +
         text(sequence.computed) + " of " + text(sequence.known) + " tokens computed (" +
         text(sequence.furthest) + " once), holds " + text(held) + ", was preempted " +
         text(sequence.record.preemptions) + " times, " + awaited_by(sequence);
}

}  // namespace tenon
