// A KV manager whose answers are checked: sizes, counts and block numbers as they come back, and
// what blocks hold before each step (kv_contents.h).
#pragma once

#include <tenon/kv_cache.h>

#include <string>

#include "core/contract/contract.h"
#include "core/contract/kv_contents.h"

namespace tenon {

class CheckedKvCache final : public KVCacheManager {
 public:
  // `shape` is the target's, `geometry` that of all groups; both outlive it. For a manager that is
  // bound already.
  CheckedKvCache(KVCacheManager& plugin, const std::string& name, const ModelShape& shape,
                 const KvGeometry& geometry, CallChecks checks = CallChecks::usual);

  // Before a step is launched: whether it would read, and write, what its sequences own.
  Status write(const BatchView& batch) { return contents_.write(batch); }
  // Where the plugin evicts by weight: what one step's rows gave (KvScores).
  Status score(const KvScores& offered, SeqId seq, GroupId group, std::span<const uint64_t> sums);

  Status bind(const ModelShape& model, const KvGeometry& geometry) noexcept override;
  Status begin(const KvSequence& sequence) noexcept override;
  Status match(SeqId seq, std::span<const TokenId> tokens, uint32_t wanted_tokens,
               KvMatch& out) noexcept override;
  Status grow(const KvRequest& request, KvGrant& out) noexcept override;
  Status trim(SeqId seq, uint32_t tokens) noexcept override;
  Status resolve(const KvOutcome& outcome) noexcept override;
  Status release(SeqId seq, ReleaseHow how) noexcept override;
  Status table(SeqId seq, GroupId group, KvTableView& out) noexcept override;
  Status take_moves(KvMovesOut& out) noexcept override;
  Status step_begin(uint64_t step_id) noexcept override;
  Status step_done(uint64_t step_id) noexcept override;
  Status usage(GroupId group, KvUsage& out) const noexcept override;
  Status check() const noexcept override;

 private:
  bool has(GroupId group) const { return group < geometry_.group_count; }
  uint64_t slots(GroupId group) const;
  Status check_move(const KvMove& move) const;

  KVCacheManager& plugin_;
  const CallChecks checks_;
  const KvGeometry geometry_;
  const uint64_t capacity_;  // slots of the ledger's group
  const CallName bind_, begin_, match_, grow_, trim_, resolve_, release_, table_, take_moves_,
      step_begin_, step_done_, usage_, check_, score_;
  KvContents contents_;
  GuardedRoom<KvMove> moves_;
  uint64_t moved_tokens_ = 0;  // in the step at hand
};

}  // namespace tenon
