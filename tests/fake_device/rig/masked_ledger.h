// A scheduler that sees another ledger than the engine's: a mask between the two changes answers.
#pragma once

#include <tenon/scheduler.h>

#include <functional>

namespace tenon {

// Passes everything on, except what a test replaces.
class MaskedLedger final : public KvLedger {
 public:
  std::function<bool(SeqId)> refuses_growth = {};
  std::function<bool(SeqId, ReleaseHow)> refuses_release = {};
  std::function<CachedTokens(SeqId, CachedTokens)> cached_instead = {};
  std::function<uint64_t(uint64_t)> free_instead = {};
  KvLedger* real = nullptr;

  CachedTokens cached(SeqId seq) noexcept override {
    const CachedTokens found = real->cached(seq);
    return cached_instead ? cached_instead(seq, found) : found;
  }
  uint64_t cost(SeqId seq, uint32_t tokens) noexcept override { return real->cost(seq, tokens); }
  GrowResult try_grow(SeqId seq, uint32_t at_least, uint32_t at_most) noexcept override {
    if (refuses_growth && refuses_growth(seq)) return {};
    return real->try_grow(seq, at_least, at_most);
  }
  HeldTokens held(SeqId seq) noexcept override { return real->held(seq); }
  bool release(SeqId seq, ReleaseHow how) noexcept override {
    if (refuses_release && refuses_release(seq, how)) return false;
    return real->release(seq, how);
  }
  uint64_t free_tokens() noexcept override {
    const uint64_t free = real->free_tokens();
    return free_instead ? free_instead(free) : free;
  }
};

// Lets a scheduler plan over the mask. `before` and `after` see each plan.
class MaskedScheduler final : public Scheduler {
 public:
  explicit MaskedScheduler(Scheduler& scheduler) : scheduler_(scheduler) {}
  Status on_event(const SequenceEvent& event) noexcept override {
    return scheduler_.on_event(event);
  }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    mask.real = &ledger;
    if (before) before(view);
    Status status = scheduler_.plan(view, mask, out);
    if (after) after(view, out);
    return status;
  }

  MaskedLedger mask;
  std::function<void(const SchedulerView&)> before = {};
  std::function<void(const SchedulerView&, const PlanOut&)> after = {};

 private:
  Scheduler& scheduler_;
};

}  // namespace tenon
