// A KV manager whose answers are checked: sizes, counts and block numbers as they come back, and
// what blocks hold before each step (kv_contents.h).
#pragma once

#include <tenon/extensions/kv_decodes.h>
#include <tenon/kv_cache.h>

#include <optional>
#include <string>

#include "core/contract/contract.h"
#include "core/contract/kv_contents.h"

namespace tenon {

class CheckedKvCache final : public KVCacheManager {
 public:
  // `shape` is the target's, `geometry` that of all groups; both outlive it. For a manager that is
  // bound already. Without `follows_contents` nothing is known of what blocks hold, for executors
  // that store nothing there.
  CheckedKvCache(KVCacheManager& plugin, const std::string& name, const ModelShape& shape,
                 const KvGeometry& geometry, CallChecks checks = CallChecks::usual,
                 bool follows_contents = true);

  // Before a step is launched: whether it would read, and write, what its sequences own.
  Status write(const BatchView& batch) { return contents_ ? contents_->write(batch) : Status(); }
  bool follows_contents() const { return contents_.has_value(); }
  // The plugin's, which it offers as an extension. Not where contents are followed.
  Status grow_decodes(const KvDecodes& offered, uint64_t step_id,
                      std::span<const KvDecode> sequences);
  Status resolve_decodes(const KvDecodes& offered, uint64_t step_id,
                         std::span<const KvDecode> sequences);
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
      step_begin_, step_done_, usage_, check_, score_, grow_decodes_, resolve_decodes_;
  std::optional<KvContents> contents_;
  GuardedRoom<KvMove> moves_;
  uint64_t moved_tokens_ = 0;  // in the step at hand
};

}  // namespace tenon
