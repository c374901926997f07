#include <tenon/sdk/scheduler/plan_builder.h>

#include <algorithm>
#include <utility>

namespace tenon::sdk {

void PlanBuilder::begin(const SchedulerView& view, KvLedger& ledger, PlanOut& out,
                        uint32_t granted) {
  view_ = &view;
  ledger_ = &ledger;
  out_ = &out;
  limits_ = lowered(view.limits, options_);
  budget_ = limits_.max_batch_tokens;
  room_ = view.limits.max_batch_tokens;
  running_ = view.running.size() + granted;
  granted_ = decoding_ = slots_ = granted;
  unserved_ = admitted_ = partial_ = 0;
  in_flight_ = short_of_memory_ = false;
  waited_seq_ = std::exchange(span_seq_, kNoSeq);
  standing_.clear();
  for (const SequenceView& sequence : view.running) {
    slots_ += sequence.samples;
    const bool flies = sequence.in_flight_tokens > 0;
    in_flight_ |= flies;
    standing_.push_back(flies ? Standing::held : Standing::idle);
    if (left(sequence) == 0) continue;
    ++unserved_;
    (left(sequence) > 1 ? partial_ : decoding_) += 1;
  }
  sort_by_policy(options_.policy, view.running, order_);
}

bool PlanBuilder::decodes_first(const SchedulerView& view, uint32_t decoding) const {
  const auto is_plain = [](const SequenceView& sequence) {
    return sequence.whole_tokens == 0 && sequence.in_flight_tokens == 0;
  };
  const auto is_new = [&](const SequenceView& sequence) {
    return is_plain(sequence) && sequence.known_tokens == sequence.prompt_tokens;
  };
  return span_seq_ == kNoSeq && decoding < lowered(view.limits, options_).max_batch_tokens &&
         std::all_of(view.running.begin(), view.running.end(), is_plain) &&
         std::all_of(view.waiting.begin(), view.waiting.end(), is_new);
}

uint32_t PlanBuilder::whole_or_piece(uint32_t tokens) const {
  if (tokens <= budget_) return tokens;
  const bool too_long = tokens > limits_.max_batch_tokens;
  return too_long && empty() ? budget_ : 0;
}

uint32_t PlanBuilder::whole_span(const SequenceView& sequence, uint32_t reused, uint32_t tokens) {
  const uint32_t span = span_of(sequence, reused);
  if (tokens >= span) return tokens;
  if (span <= room_) return span;
  if (span_seq_ == kNoSeq) span_seq_ = sequence.seq;
  return 0;
}

void PlanBuilder::serve_waiting_span() {
  if (waited_seq_ == kNoSeq) return;
  for (size_t place = 0; place < order_.size(); ++place) {
    if (at(place).seq != waited_seq_ || !unserved(place)) continue;
    grant_or_preempt(place, whole_span(at(place), 0, 1), 0);
  }
}

bool PlanBuilder::admit(const SequenceView& waiting, uint32_t tokens) {
  bool whole = false;
  if (!grant(waiting, tokens, 0, whole)) return false;
  ++admitted_;
  slots_ += waiting.samples;
  partial_ += whole ? 0 : 1;
  return true;
}

bool PlanBuilder::make_room(const SequenceView& waiting, uint32_t tokens) {
  const PolicyKey key = policy_key(options_.policy, waiting, 0);
  const auto fits = [&] {
    return has_slots(waiting) && ledger_->cost(waiting.seq, tokens) <= ledger_->free_tokens();
  };
  for (size_t place = order_.size(); place-- > 0 && key < order_[place];) {
    if (fits()) return true;
    preempt(place);
  }
  return fits();
}

void PlanBuilder::advance_decodes(bool prompts_wait) {
  budget_ -= std::min(budget_, granted_);
  room_ -= std::min(room_, granted_);
  const uint64_t sure = std::min<uint64_t>(budget_, unserved_);
  uint64_t drafts = (budget_ - sure) / (prompts_wait ? 2 : 1);
  for (size_t place = 0; place < order_.size() && budget_ > 0; ++place) {
    const SequenceView& sequence = at(place);
    if (left(sequence) != 1 || !unserved(place)) continue;
    const auto offered = static_cast<uint32_t>(std::min<uint64_t>(sequence.offered_drafts, drafts));
    const uint32_t before = budget_;
    if (grant_or_preempt(place, 1, offered)) drafts -= before - budget_ - 1;
  }
}

bool PlanBuilder::grant(const SequenceView& sequence, uint32_t tokens, uint32_t drafts,
                        bool& whole) {
  if (!fits(sequence, tokens, drafts)) return false;
  const GrowResult grown = ledger_->try_grow(sequence.seq, tokens, tokens + drafts);
  if (grown.granted == 0) return false;
  // A prefix that appeared meanwhile leaves less to compute.
  const uint32_t most = left(sequence) - std::min(left(sequence), grown.reused);
  const uint32_t taken = std::min({tokens, grown.granted, most});
  // Less of a span was reused than the cache had said. What was granted is given back.
  if (taken == 0 || taken < span_of(sequence, grown.reused)) return false;
  whole = taken == most;
  const uint32_t behind = whole ? std::min(drafts, grown.granted - taken) : 0;
  budget_ -= std::min(budget_, taken + behind);
  room_ -= taken + behind;
  return out_->push({sequence.seq, taken, behind});
}

bool PlanBuilder::fits(const SequenceView& sequence, uint32_t tokens, uint32_t drafts) const {
  const bool span = tokens <= sequence.whole_tokens;
  return tokens > 0 && uint64_t{tokens} + drafts <= (span ? room_ : budget_);
}

bool PlanBuilder::grant_running(size_t place, uint32_t tokens, uint32_t drafts) {
  bool whole = false;
  if (!grant(at(place), tokens, drafts, whole)) return false;
  leave(place, Standing::granted);
  if (whole && left(at(place)) > 1) --partial_;
  return true;
}

bool PlanBuilder::grant_or_preempt(size_t place, uint32_t tokens, uint32_t drafts) {
  while (!grant_running(place, tokens, drafts)) {
    if (!fits(at(place), tokens, drafts)) return false;
    const size_t victim = choose_victim(place, tokens);
    if (victim == place) {
      short_of_memory_ |= in_flight_;
      if (place > 0 || stuck_for_long(at(place).seq)) short_of_memory_ |= preempt(place);
      return false;
    }
    short_of_memory_ |= preempt(victim);
  }
  if (place == 0) stuck_plans_ = 0;
  return true;
}

bool PlanBuilder::stuck_for_long(SeqId seq) {
  if (stuck_seq_ != seq) stuck_plans_ = 0;
  stuck_seq_ = seq;
  return ++stuck_plans_ % kPatience == 0;
}

void PlanBuilder::leave(size_t place, Standing now) {
  standing(place) = now;
  --unserved_;
}

bool PlanBuilder::preempt(size_t place) {
  if (standing(place) != Standing::idle) return false;
  const SequenceView& victim = at(place);
  bool gone = false;
  if (options_.preempt == Preempt::swap) {
    gone = ledger_->release(victim.seq, ReleaseHow::swap);
    if (!gone && host_.count != nullptr) host_.count(host_.context, "swap_refused", 1);
  }
  gone = gone || ledger_->release(victim.seq, ReleaseHow::recompute);
  if (!gone) {
    standing(place) = Standing::held;
    return false;
  }
  count_out(place);
  // The beams of one search lose their memory together.
  for (size_t other = 0; other < order_.size(); ++other) {
    const bool with_it = at(other).fork_group == victim.fork_group && unserved(other) &&
                         ledger_->held(at(other).seq).tokens == 0;
    if (with_it) count_out(other);
  }
  return true;
}

void PlanBuilder::count_out(size_t place) {
  leave(place, Standing::preempted);
  --running_;
  slots_ -= std::min(slots_, at(place).samples);
  if (left(at(place)) > 1) --partial_;
}

size_t PlanBuilder::choose_victim(size_t place, uint32_t tokens) {
  if (victim_ == Victim::least_cost) return cheapest_victim(place, tokens);
  size_t chosen = place;
  for (size_t other = place + 1; other < order_.size(); ++other) {
    if (standing(other) != Standing::idle) continue;
    const bool better = victim_ == Victim::last
                            ? chosen == place || order_[other].index > order_[chosen].index
                            : !before_by_priority(at(other), at(chosen));
    if (better) chosen = other;
  }
  return chosen;
}

bool PlanBuilder::before_by_priority(const SequenceView& a, const SequenceView& b) {
  return policy_key(Policy::priority, a, 0) < policy_key(Policy::priority, b, 0);
}

size_t PlanBuilder::cheapest_victim(size_t place, uint32_t tokens) {
  const uint64_t cost = ledger_->cost(at(place).seq, tokens);
  const uint64_t needed = cost - std::min(cost, ledger_->free_tokens());
  size_t chosen = place;
  bool enough = false;
  double best = 0.0;
  size_t looks = 0;
  for (size_t other = order_.size(); other-- > place + 1 && looks < kLooks;) {
    if (standing(other) != Standing::idle) continue;
    ++looks;
    const uint64_t freed = ledger_->held(at(other).seq).exclusive;
    const double again = std::max(at(other).computed_tokens, 1u);
    const bool frees_enough = freed >= needed;
    const double value = frees_enough ? -again : static_cast<double>(freed) / again;
    const bool better = chosen == place || (frees_enough == enough ? value > best : frees_enough);
    if (!better) continue;
    chosen = other;
    enough = frees_enough;
    best = value;
  }
  return chosen;
}

}  // namespace tenon::sdk
