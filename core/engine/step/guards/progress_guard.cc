#include "core/engine/step/guards/progress_guard.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/engine/step/guards/alone.h"

namespace tenon {
namespace {

constexpr size_t kNamed = 8;     // sequences that a message describes
constexpr uint64_t kRounds = 3;  // how often each may lose its memory while nobody gets on

const char* awaited_by(const Sequence& sequence) {
  if (sequence.answer->held_back()) return "waits for other beams of its search";
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
  if (step.empty()) return;
  ++futile_steps_;
  if (!context_.alone && goes_round() && let_first_run_alone(context_)) {
    futile_steps_ = preemptions_ = 0;
    return;
  }
  if (futile_steps_ < patience()) return;
  const std::string message = verdict();
  futile_steps_ = preemptions_ = 0;
  ++context_.totals.plan_faults;
  std::vector<Sequence*> stuck = context_.table.all();
  std::erase_if(stuck, [this](const Sequence* one) { return !context_.may_run(*one); });
  context_.fail_sequences(stuck, message);
}

bool ProgressGuard::goes_round() const {
  const uint64_t live = context_.table.waiting().size() + context_.table.running().size();
  return preemptions_ > kRounds * live || futile_steps_ >= patience() / 2;
}

bool ProgressGuard::got_on(const Step& step) {
  const uint64_t ended = std::exchange(samples_ended_, context_.totals.samples_ended);
  bool further = ended != samples_ended_ || step.record.tokens > 0;
  for (const Share& share : step.shares) {
    Sequence& sequence = *share.sequence;
    further |= sequence.answer->traits.whole && share.result_count > 0;
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
  std::string message = "nobody got on in " + std::to_string(futile_steps_) + " steps with " +
                        std::to_string(preemptions_) + " preemptions – ";
  const std::vector<Sequence*> all = context_.table.all();
  for (size_t i = 0; i < std::min(all.size(), kNamed); ++i) message += description(*all[i]) + "; ";
  if (all.size() > kNamed) message += std::to_string(all.size() - kNamed) + " more; ";
  message += memory_left() + " are free – scheduler '" + context_.parts.scheduler_name +
             "' goes round in circles over kv_cache '" + context_.parts.kv_cache_name +
             "' – use another scheduler, or raise kv_cache.memory";
  return message;
}

// Of the group that memory is counted in, and of all slots of state.
std::string ProgressGuard::memory_left() const {
  const EngineParts& parts = context_.parts;
  std::string left;
  for (GroupId group = 0; group < parts.shape->group_count; ++group) {
    const bool recurrent = parts.shape->groups[group].kind == KvKind::recurrent;
    KvUsage usage;
    const bool counts = recurrent || group == parts.shape->ledger_group;
    if (!counts || !parts.kv_cache->usage(group, usage).ok()) continue;
    left += (left.empty() ? "" : " and ") + std::to_string(usage.free_tokens) + " of " +
            std::to_string(usage.total_tokens) + (recurrent ? " slots of state" : " tokens of K/V");
  }
  return left.empty() ? "an unknown part" : left;
}

std::string ProgressGuard::description(const Sequence& sequence) const {
  KvMatch found;
  const Status status = context_.parts.kv_cache->match(sequence.id, sequence.known_tokens(),
                                                       sequence.computed, found);
  const uint64_t held = status.ok() ? found.tokens_held : 0;
  return "sequence " + std::to_string(sequence.id) + " of request " +
         std::to_string(sequence.request->id) + " has " + std::to_string(sequence.computed) +
         " of " + std::to_string(sequence.known) + " tokens computed (" +
         std::to_string(sequence.furthest) + " once), holds " + std::to_string(held) +
         ", was preempted " + std::to_string(sequence.record.preemptions) + " times, " +
         awaited_by(sequence);
}

}  // namespace tenon
