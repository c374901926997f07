// KvLedger over a KVCacheManager: what a scheduler may see and take of KV memory during one plan.
//
// Every growth can be taken back when the plan fails. Preemptions stay: a released sequence
// waits again.
//
// Sequences that are grouped are granted memory as one and lose it as one: the first that grows in
// a plan grows all that have something to compute, or none; releasing one releases all.
#pragma once

#include <tenon/kv_cache.h>
#include <tenon/scheduler.h>

#include <vector>

#include "core/base/clock.h"
#include "core/engine/requests/sequence_table.h"
#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class Ledger final : public KvLedger {
 public:
  // Memory is counted in tokens of `group`. `eviction` may be null.
  Ledger(KVCacheManager& manager, const KvEviction* eviction, GroupId group, uint32_t block_tokens,
         SequenceTable& table, const Clock& clock)
      : manager_(manager),
        eviction_(eviction),
        group_(group),
        block_tokens_(block_tokens),
        table_(table),
        clock_(clock) {}

  void begin_plan(uint64_t step_id, Planning planning);
  // The same where the manager's step has begun.
  void begin_rest(Planning planning);
  // Growths that no grant uses (Growth::used) are given back; those that waited run from now.
  Status settle();
  // Every growth is given back; nothing of the plan is run.
  Status roll_back();

  // The first error of the manager during this plan, and whom it concerns.
  const Status& fault() const { return fault_; }
  SeqId faulty() const { return faulty_; }
  uint32_t preemptions() const { return preemptions_; }
  // Of the growths that `settle` found used: tokens from the cache, and from the swap pool.
  uint64_t reused_tokens() const { return reused_tokens_; }
  uint64_t swapped_in_tokens() const { return swapped_in_tokens_; }
  uint64_t swapped_out_tokens() const { return swapped_out_tokens_; }
  int64_t time_ns() const { return time_ns_; }

  // For `plan`.
  CachedTokens cached(SeqId seq) noexcept override;
  uint64_t cost(SeqId seq, uint32_t tokens) noexcept override;
  GrowResult try_grow(SeqId seq, uint32_t at_least, uint32_t at_most) noexcept override;
  HeldTokens held(SeqId seq) noexcept override;
  bool release(SeqId seq, ReleaseHow how) noexcept override;
  uint64_t free_tokens() noexcept override;

 private:
  Status give_back(Sequence& sequence);
  bool nobody_else_holds(const Sequence& sequence) const;
  bool match(SeqId seq, uint32_t more_tokens, KvMatch& out);
  void note(Status status, SeqId seq);
  GrowResult grow(Sequence& sequence, uint32_t at_least, uint32_t at_most);
  bool grow_siblings(const Sequence& sequence);
  static bool may_release(std::span<Sequence* const> group);
  bool release_group(Sequence& sequence, ReleaseHow how);

  KVCacheManager& manager_;
  const KvEviction* const eviction_;
  const GroupId group_;
  const uint32_t block_tokens_;  // of the group
  SequenceTable& table_;
  const Clock& clock_;
  std::vector<Sequence*> grown_;  // in the order of their first growth
  Planning planning_ = Planning::now;
  Status fault_;
  SeqId faulty_ = kNoSeq;
  const Sequence* refused_ = nullptr;  // the latest that was to grow, where it could not
  uint32_t preemptions_ = 0;
  uint64_t reused_tokens_ = 0;
  uint64_t swapped_out_tokens_ = 0;
  uint64_t swapped_in_tokens_ = 0;
  int64_t time_ns_ = 0;
};

}  // namespace tenon
