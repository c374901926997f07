#include "core/conformance/worlds/scheduler_world.h"

#include <algorithm>

#include "core/base/result.h"
#include "core/contract/checked_scheduler.h"

namespace tenon {
namespace {

constexpr uint32_t kMostIdleSteps = 400;  // schedulers may hold prompts back for a while

std::string number(uint64_t value) {
  return std::to_string(value);
}

const SequenceView* find_view(std::span<const SequenceView> views, SeqId seq) {
  const auto found = std::find_if(views.begin(), views.end(),
                                  [seq](const SequenceView& view) { return view.seq == seq; });
  return found == views.end() ? nullptr : &*found;
}

std::string broken_by_grant(const SequenceView& sequence, const RecordingLedger& ledger,
                            const Grant& grant, bool whole_spans) {
  const std::string who = "sequence " + number(grant.seq);
  const uint32_t granted = ledger.granted(grant.seq), reused = ledger.reused(grant.seq);
  const uint32_t left = sequence.known_tokens - sequence.computed_tokens;
  if (ledger.released(grant.seq)) return "grants " + who + ", whose memory it took back";
  if (grant.tokens == 0) return "grants " + who + " no token";
  if (uint64_t{grant.tokens} + grant.drafts > granted) {
    return "grants " + who + " " + number(uint64_t{grant.tokens} + grant.drafts) +
           " tokens, of which the ledger granted " + number(granted);
  }
  if (grant.tokens > left - std::min(left, reused)) {
    return "grants " + who + " " + number(grant.tokens) + " known tokens, of which " +
           number(left - std::min(left, reused)) + " are left to compute";
  }
  if (grant.drafts > sequence.offered_drafts) {
    return "grants " + who + " " + number(grant.drafts) + " drafts, where " +
           number(sequence.offered_drafts) + " were offered";
  }
  const uint32_t whole = std::min(sequence.whole_tokens, left);
  if (whole_spans && grant.tokens + reused < whole) {
    return "grants " + who + " " + number(grant.tokens) + " of " + number(whole) +
           " tokens that must be computed together";
  }
  return {};
}

}  // namespace

uint64_t RecordingLedger::cost(SeqId, uint32_t tokens) noexcept {
  ++calls_;
  return tokens;
}

GrowResult RecordingLedger::try_grow(SeqId seq, uint32_t at_least, uint32_t at_most) noexcept {
  ++calls_;
  if (at_least > free_ || at_most == 0 || at_most < at_least) return {};
  const auto given = static_cast<uint32_t>(std::min<uint64_t>(at_most, free_));
  free_ -= given;
  held_[seq] += given;
  granted_[seq] += given;
  const uint32_t reused = running.contains(seq) ? 0 : count_of(ready, seq);
  if (!reused_.contains(seq)) reused_[seq] = reused;
  return {given, reused};
}

HeldTokens RecordingLedger::held(SeqId seq) noexcept {
  ++calls_;
  const uint32_t tokens = count_of(held_, seq);
  return {tokens, tokens};
}

bool RecordingLedger::release(SeqId seq, ReleaseHow how) noexcept {
  ++calls_;
  const auto who = running.find(seq);
  if (refuses || how == ReleaseHow::end || granted_.contains(seq)) return false;
  if (how == ReleaseHow::swap && !swaps) return false;
  if (who == running.end() || who->second > 0 || released_.contains(seq)) return false;
  free_ += std::exchange(held_[seq], 0);
  released_[seq] = how;
  return true;
}

void RecordingLedger::begin_plan() {
  calls_ = 0;
  granted_.clear();
  reused_.clear();
  released_.clear();
}

void RecordingLedger::give_back(SeqId seq, uint32_t tokens) {
  held_[seq] -= tokens;
  free_ += tokens;
}

void RecordingLedger::end(SeqId seq) {
  free_ += std::exchange(held_[seq], 0);
  held_.erase(seq);
  running.erase(seq);
}

std::string broken_by(const SchedulerView& view, const RecordingLedger& ledger, const PlanOut& out,
                      bool whole_spans) {
  uint64_t rows = 0, begun = 0;
  for (uint32_t i = 0; i < out.grant_count; ++i) {
    const Grant& grant = out.grants[i];
    const SequenceView* sequence = find_view(view.running, grant.seq);
    if (sequence == nullptr) {
      sequence = find_view(view.waiting, grant.seq);
      ++begun;
    }
    if (sequence == nullptr)
      return "grants sequence " + number(grant.seq) + ", which is in no view";
    for (uint32_t j = 0; j < i; ++j) {
      if (out.grants[j].seq == grant.seq) return "grants sequence " + number(grant.seq) + " twice";
    }
    if (std::string wrong = broken_by_grant(*sequence, ledger, grant, whole_spans);
        !wrong.empty()) {
      return wrong;
    }
    rows += uint64_t{grant.tokens} + grant.drafts;
  }
  if (rows > view.limits.max_batch_tokens) {
    return "plans " + number(rows) + " tokens, max_batch_tokens is " +
           number(view.limits.max_batch_tokens);
  }
  const uint64_t running = view.running.size() - ledger.releases() + begun;
  if (begun > 0 && running > view.limits.max_sequences) {
    return "lets " + number(running) + " sequences run, max_sequences is " +
           number(view.limits.max_sequences);
  }
  return {};
}

SchedulerWorld::SchedulerWorld(Scheduler& scheduler, const WorldSize& size, uint64_t seed)
    : scheduler_(scheduler), size_(size), random_(seed), ledger_(size.memory_tokens) {
  const uint64_t work = uint64_t{size.sequences} * (size.most_prompt + size.most_answer);
  most_steps_ = 2000 + 40 * work;
  ledger_.swaps = size.swaps;
}

void SchedulerWorld::tell(EventKind kind, const SequenceView& view) {
  SequenceEvent event;
  event.kind = kind;
  event.seq = view.seq;
  event.step_id = kind == EventKind::arrived ? 0 : step_;
  event.tenant = view.tenant;
  event.prompt_tokens = view.prompt_tokens;
  event.known_tokens = view.known_tokens;
  event.computed_tokens = view.computed_tokens;
  if (const Status status = scheduler_.on_event(event); !status.ok() && problem_.empty()) {
    problem_ = "on_event fails: " + message_of(status);
  }
}

void SchedulerWorld::arrive() {
  Live live;
  live.view.seq = next_++;
  live.view.prompt_tokens = live.view.known_tokens = 1 + random_.below(size_.most_prompt);
  live.answer = 1 + random_.below(size_.most_answer);
  live.view.limit_tokens = live.view.prompt_tokens + live.answer;
  live.view.tenant = random_.below(3);
  live.view.priority = static_cast<int32_t>(random_.below(3));
  live.view.arrival_ns = static_cast<int64_t>(live.view.seq);
  if (size_.whole_spans && random_.one_in(3)) {
    live.view.whole_tokens = std::min(live.view.prompt_tokens, size_.max_batch_tokens / 2);
  }
  tell(EventKind::arrived, live.view);
  live_.emplace(live.view.seq, live);
}

std::vector<SequenceView> SchedulerWorld::views(bool running) const {
  std::vector<const Live*> chosen;
  for (const auto& [seq, live] : live_) {
    if (live.running == running) chosen.push_back(&live);
  }
  // Waiting: in arrival order, as ids are. Running: in admission order.
  if (running) {
    std::stable_sort(chosen.begin(), chosen.end(),
                     [](const Live* a, const Live* b) { return a->admitted < b->admitted; });
  }
  std::vector<SequenceView> made;
  for (const Live* live : chosen) made.push_back(live->view);
  return made;
}

bool SchedulerWorld::step() {
  // Half of them are there at once, so that more wait than may run.
  const SeqId at_once = size_.sequences / 2;
  while (next_ <= size_.sequences && (next_ <= at_once || live_.empty() || random_.one_in(3))) {
    arrive();
  }
  if (live_.empty() || !problem_.empty()) return false;
  if (++step_ > most_steps_) {
    problem_ = "some of " + number(live_.size()) + " sequences have not ended after " +
               number(most_steps_) + " steps";
    return false;
  }
  const std::vector<SequenceView> waiting = views(false), running = views(true);
  SchedulerView view;
  view.step_id = step_;
  view.now_ns = static_cast<int64_t>(step_) * size_.step_ns + skipped_ns_;
  view.limits = {size_.max_sequences, size_.max_batch_tokens, 4096};
  view.kv_tokens = size_.memory_tokens;
  view.last_step = last_;
  view.waiting = waiting;
  view.running = running;
  std::vector<Grant> grants(waiting.size() + running.size());
  PlanOut out;
  out.grants = grants;
  ledger_.begin_plan();
  if (const Status status = scheduler_.plan(view, ledger_, out); !status.ok()) {
    problem_ = "plan fails: " + message_of(status);
    return false;
  }
  problem_ = broken_by(view, ledger_, out, size_.whole_spans);
  if (!problem_.empty()) return false;
  note(out);
  apply(out);
  wait(out, view.now_ns);
  return problem_.empty() && (!live_.empty() || next_ <= size_.sequences);
}

void SchedulerWorld::wait(const PlanOut& out, int64_t now_ns) {
  if (out.grant_count > 0) {
    idle_steps_ = 0;
    waited_ns_ = 0;
    return;
  }
  std::string how_long;
  if (out.wake_ns > now_ns) {
    skipped_ns_ += std::max<int64_t>(out.wake_ns - now_ns - size_.step_ns, 0);
    waited_ns_ += out.wake_ns - now_ns;
    if (waited_ns_ > CheckedScheduler::kLongestWaitNs) {
      how_long = approximate_duration(waited_ns_) + " on purpose";
    }
  } else if (++idle_steps_ > kMostIdleSteps) {
    how_long = number(kMostIdleSteps) + " steps";
  }
  if (how_long.empty()) return;
  problem_ = "nobody was granted anything for " + how_long + ", though " + number(live_.size()) +
             " sequences wait or run";
}

void SchedulerWorld::note(const PlanOut& out) {
  std::string line = "step " + number(step_) + ":";
  for (uint32_t i = 0; i < out.grant_count; ++i) {
    const Grant& grant = out.grants[i];
    line += " " + number(grant.seq) + "=" + number(grant.tokens) + "+" + number(grant.drafts);
  }
  for (const auto& [seq, live] : live_) {
    if (!ledger_.released(seq)) continue;
    line += (ledger_.swapped(seq) ? " swapped " : " released ") + number(seq);
  }
  transcript_.push_back(std::move(line));
}

// Those whose memory was taken wait again, with nothing computed.
void SchedulerWorld::take_back() {
  for (auto& [seq, live] : live_) {
    if (!ledger_.released(seq)) continue;
    live.running = false;
    live.view.computed_tokens = 0;
    ledger_.running.erase(seq);
  }
}

void SchedulerWorld::advance(Live& live, const Grant& grant) {
  if (!live.running) {
    live.running = true;
    live.admitted = ++admitted_;
    ledger_.running[grant.seq] = 0;
  }
  live.view.computed_tokens += grant.tokens;
  live.view.whole_tokens = 0;
  if (live.view.computed_tokens < live.view.known_tokens) return;
  ++live.view.known_tokens;
  --live.answer;
}

void SchedulerWorld::apply(const PlanOut& out) {
  take_back();
  last_ = {step_, 0, out.grant_count, 0, 0};
  for (uint32_t i = 0; i < out.grant_count; ++i) {
    const Grant& grant = out.grants[i];
    Live& live = live_.at(grant.seq);
    ledger_.give_back(grant.seq, ledger_.granted(grant.seq) - grant.tokens);
    const uint32_t known = live.view.known_tokens;
    advance(live, grant);
    last_.rows += grant.tokens;
    last_.logits_rows += live.view.known_tokens > known ? 1 : 0;
  }
  if (size_.measures) last_.duration_ns = 1'000'000 + 100'000 * int64_t{last_.rows};
  if (last_.rows == 0) last_ = {};
  for (auto it = live_.begin(); it != live_.end();) {
    const Live& live = it->second;
    if (live.answer > 0) {
      ++it;
      continue;
    }
    tell(EventKind::finished, live.view);
    ledger_.end(it->first);
    it = live_.erase(it);
  }
}

}  // namespace tenon
