#include "plugins/scheduler/fair/fair_shares.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

constexpr size_t kMostTenants = 4096;  // before those are forgotten who do not matter

}  // namespace

void FairShares::on_event(const SequenceEvent& event) {
  if (event.kind == EventKind::arrived) arrived(event);
  const auto found = sequences_.find(event.seq);
  if (found == sequences_.end()) return;
  if (event.kind != EventKind::arrived) progressed(found->second, event);
  if (event.kind != EventKind::finished && event.kind != EventKind::aborted) return;
  --found->second.tenant->live;
  sequences_.erase(found);
}

void FairShares::arrived(const SequenceEvent& event) {
  if (tenants_.size() > forget_above_) forget_idle_tenants();
  Tenant& tenant = tenants_[event.tenant];
  tenant.id = event.tenant;
  ++tenant.live;
  // A sample that was forked comes with its prompt computed.
  sequences_[event.seq] = {&tenant, event.prompt_tokens, event.computed_tokens, event.prompt_tokens,
                           true};
}

void FairShares::progressed(Sequence& sequence, const SequenceEvent& event) {
  sequence.fresh = false;
  sequence.charged_prompt = std::max(sequence.charged_prompt, event.computed_tokens);
  if (event.known_tokens <= sequence.known) return;
  sequence.tenant->served += weights_.output * (event.known_tokens - sequence.known);
  sequence.known = event.known_tokens;
}

// Whoever was served least would be lifted on return in any case, so nothing is lost with it; where
// that is not enough, debts of those who are not here are forgiven.
void FairShares::forget_idle_tenants() {
  forget_queue();  // of the last plan: those who stood in it may be gone
  double lowest = served(last_left_);
  for (const auto& [id, tenant] : tenants_) {
    if (tenant.live > 0) lowest = std::min(lowest, tenant.served);
  }
  const auto forget = [this](double above) {
    std::erase_if(tenants_, [above](const auto& entry) {
      return entry.second.live == 0 && entry.second.served <= above;
    });
  };
  forget(lowest);
  if (tenants_.size() > kMostTenants) forget(HUGE_VAL);
  forget_above_ = std::max(kMostTenants, 2 * tenants_.size());
}

void FairShares::begin(std::span<const SequenceView> waiting, const PlanOut& out) {
  waiting_ = waiting;
  out_ = &out;
  charged_grants_ = 0;
  behind_.assign(waiting.size(), kNobody);
  forget_queue();
  fresh_.clear();
  for (uint32_t i = 0; i < waiting.size(); ++i) {
    const auto found = sequences_.find(waiting[i].seq);
    if (found == sequences_.end()) continue;
    Sequence& sequence = found->second;
    append(*sequence.tenant, i);
    if (sequence.fresh) {
      fresh_.push_back(&sequence);
    } else if (!sequence.tenant->in_queue) {
      sequence.tenant->in_queue = true;
      queue_.push_back(sequence.tenant);
    }
  }
  for (Sequence* sequence : fresh_) {
    sequence->fresh = false;
    if (sequence->tenant->in_queue) continue;
    lift(*sequence->tenant);
    sequence->tenant->in_queue = true;
    queue_.push_back(sequence->tenant);
  }
}

void FairShares::forget_queue() {
  for (Tenant* tenant : queue_) *tenant = {tenant->id, tenant->served, tenant->live};
  queue_.clear();
}

void FairShares::append(Tenant& tenant, uint32_t waiting) {
  (tenant.first == kNobody ? tenant.first : behind_[tenant.last]) = waiting;
  tenant.last = waiting;
}

void FairShares::lift(Tenant& tenant) const {
  double lowest = queue_.empty() ? served(last_left_) : queue_.front()->served;
  for (const Tenant* other : queue_) lowest = std::min(lowest, other->served);
  tenant.served = std::max(tenant.served, lowest);
}

const SequenceView* FairShares::next() {
  charge_grants();
  Tenant* least = nullptr;
  for (Tenant* tenant : queue_) {
    if (tenant->first == kNobody) continue;
    const bool earlier = least == nullptr || tenant->served < least->served ||
                         (tenant->served == least->served && tenant->first < least->first);
    if (earlier) least = tenant;
  }
  if (least == nullptr) return nullptr;
  const uint32_t index = least->first;
  least->first = behind_[index];
  if (least->first == kNobody) last_left_ = least->id;
  return &waiting_[index];
}

// Prompt tokens are charged when they are granted, so that the next turn is decided with them; what
// is computed again after a preemption was charged before.
void FairShares::charge_grants() {
  for (; charged_grants_ < out_->grant_count; ++charged_grants_) {
    const Grant& grant = out_->grants[charged_grants_];
    const auto found = sequences_.find(grant.seq);
    if (found == sequences_.end()) continue;
    Sequence& sequence = found->second;
    if (sequence.charged_prompt >= sequence.prompt) continue;
    const uint32_t tokens = std::min(grant.tokens, sequence.prompt - sequence.charged_prompt);
    sequence.charged_prompt += tokens;
    sequence.tenant->served += weights_.input * tokens;
  }
}

double FairShares::served(uint32_t tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0.0 : found->second.served;
}

}  // namespace tenon
