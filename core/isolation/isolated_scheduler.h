// A scheduler in a process of its own, as the engine sees it.
//
// Events wait for the next plan and go with it, but for arrivals, which may be refused. Growths
// that surely succeed the process answers itself (guest_scheduler.cc); they are made here
// afterwards. Where one turns out otherwise its grant is dropped – the sequence computes nothing in
// this step – and for a while, longer each time, the process asks for every growth.
//
// A plan that ends with the process is an error, so the engine takes back what it was granted. From
// then on another scheduler plans, which is told of every sequence that lives: nothing is lost. So
// it is where two plans in a row are refused, whatever is wrong with them.
//
// Threads: as Scheduler's.
#pragma once

#include <tenon/scheduler.h>

#include <map>
#include <string>
#include <vector>

#include "core/isolation/isolated_plugin.h"

namespace tenon {

class IsolatedScheduler final : public Scheduler {
 public:
  static Result<std::unique_ptr<IsolatedScheduler>> create(IsolatedOrigin origin);

  // Who goes on; borrowed. Without one every plan is an error once the process is gone.
  void set_fallback(Scheduler* fallback, std::string name);
  // The latest plan was an error, or broke the contract.
  void plan_refused();
  pid_t process() const { return plugin_.process(); }
  ProcessLosses losses() const { return plugin_.losses(); }

  Status on_event(const SequenceEvent& event) noexcept override;
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override;

 private:
  explicit IsolatedScheduler(IsolatedOrigin origin);
  void remember(const SequenceEvent& event);
  Status fall_back();
  Status plan_elsewhere(const SchedulerView& view, KvLedger& ledger, PlanOut& out);
  void write_plan(const SchedulerView& view, uint64_t free_tokens, WireWriter& out);
  void read_plan(WireReader& in, KvLedger& ledger, PlanOut& out);
  void make_true(std::span<const Foreseen> foreseen, KvLedger& ledger);
  void answer(const Lane& lane, KvLedger& ledger);
  void drop_broken(PlanOut& out);

  IsolatedPlugin plugin_;
  const uint32_t block_tokens_;
  std::vector<SequenceEvent> events_;             // not yet told
  std::map<SeqId, SequenceEvent> alive_;          // by their latest event
  std::vector<std::pair<SeqId, uint32_t>> kept_;  // less than was foreseen, and how much it is
  size_t running_ = 0;                            // of the plan at hand
  uint64_t exact_plans_ = 0;                      // to come without anything foreseen
  uint64_t next_exact_plans_ = 64;
  Scheduler* fallback_ = nullptr;
  std::string fallback_name_;
  bool fell_back_ = false;
  bool refused_ = false;        // the latest plan was
  uint32_t refused_plans_ = 0;  // in a row
};

}  // namespace tenon
