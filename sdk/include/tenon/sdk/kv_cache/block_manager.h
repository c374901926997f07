// A KV manager over tables of blocks: blocks on demand, forks that share, copies before a write,
// windows, rollback, swap, recurrent state, steps in flight. It is complete as it is; a manager
// that also finds prefixes, or evicts, overrides the hooks.
//
//   class MyManager final : public sdk::BlockManager {
//    public:
//     MyManager(const HostServices& host, const PipelineFacts&, const MyOptions&)
//         : BlockManager("mine", host) {}
//    protected:
//     Found find_prefix(BlockSequence&, std::span<const TokenId>) override { … }
//   };
#pragma once

#include <tenon/extensions/kv_decodes.h>
#include <tenon/sdk/kv_cache/block_tables.h>
#include <tenon/sdk/kv_cache/sequence_map.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon::sdk {

class BlockManager : public KVCacheManager {
 public:
  BlockManager(std::string_view id, const HostServices& host,
               EvictionOrder order = EvictionOrder::lru)
      : id_(id), host_(host), order_(order), decodes_(offered_decodes()) {}
  virtual ~BlockManager() = default;
  BlockManager(const BlockManager&) = delete;
  BlockManager& operator=(const BlockManager&) = delete;

  // A manager with extensions of its own asks this one about all others.
  const void* extension(std::string_view id) const {
    return id == kKvDecodes ? &decodes_ : nullptr;
  }

  Status bind(const ModelShape& model, const KvGeometry& geometry) noexcept override {
    return guard([&] { return bind_groups(model, geometry); });
  }
  Status begin(const KvSequence& sequence) noexcept override {
    return guard([&] { return begin_sequence(sequence); });
  }
  Status match(SeqId seq, std::span<const TokenId> tokens, uint32_t wanted_tokens,
               KvMatch& out) noexcept override {
    return guard([&] { return match_sequence(seq, tokens, wanted_tokens, out); });
  }
  Status grow(const KvRequest& request, KvGrant& out) noexcept override {
    return guard([&] { return grow_sequence(request, out); });
  }
  Status trim(SeqId seq, uint32_t tokens) noexcept override {
    return guard([&] { return trim_sequence(seq, tokens); });
  }
  Status resolve(const KvOutcome& outcome) noexcept override {
    return guard([&] { return resolve_sequence(outcome); });
  }
  Status release(SeqId seq, ReleaseHow how) noexcept override {
    return guard([&] { return release_sequence(seq, how); });
  }
  Status table(SeqId seq, GroupId group, KvTableView& out) noexcept override {
    BlockSequence* sequence = find(seq);
    if (sequence == nullptr) return unknown(seq);
    return guard([&] { return show_table(*sequence, group, out); });
  }
  Status take_moves(KvMovesOut& out) noexcept override {
    moves_.take(out);
    return {};
  }
  Status step_begin(uint64_t step_id) noexcept override {
    step_ = step_id;
    return {};
  }
  Status step_done(uint64_t step_id) noexcept override {
    each_pool([&](BlockPool& pool) { pool.step_done(step_id); });
    counters_.flush(host_);
    return {};
  }
  Status usage(GroupId group, KvUsage& out) const noexcept override {
    return guard([&] { return usage_of(group, out); });
  }
  Status check() const noexcept override {
    return guard([&] { return check_groups(); });
  }

 protected:
  // What is known of a sequence that holds nothing. Positions 0 … tokens-1 stand in whole blocks
  // to share, `partial` more in a block to copy; up to `promised_end` others are computing.
  struct Found {
    uint32_t tokens = 0;
    uint32_t partial = 0;
    uint32_t promised_end = 0;
  };

  // Numbers of tokens, rising, that a grant passes on its way; recurrent groups have slots there.
  struct OnTheWay {
    static constexpr uint32_t kMost = 2;
    std::array<uint32_t, kMost> ends = {};
    uint32_t count = 0;

    void add(uint32_t end) { ends[count++] = end; }
    void drop(uint32_t end) {
      const auto last = std::remove(ends.begin(), ends.begin() + count, end);
      count = static_cast<uint32_t>(last - ends.begin());
    }
    std::span<const uint32_t> all() const { return {ends.data(), count}; }
  };

  // Hooks. Those that take a sequence are called while its tables are as they say.
  virtual Status bound() { return {}; }
  // What stays of a group that sees everything, where not everything does.
  virtual SinkWindow kept_of(const KvGroup&, const KvGroupGeometry&) const { return {}; }
  // Whether a fork may read the parent's last block, partly filled, until one of them writes.
  virtual bool shares_tails() const { return true; }
  virtual void begun(BlockSequence&, const KvSequence&, const BlockSequence* /*parent*/) {}
  virtual Found find_prefix(BlockSequence&, std::span<const TokenId>) { return {}; }
  // The block of entry `index` that find_prefix meant, also the one to copy after whole ones.
  virtual BlockId found_block(const BlockSequence&, GroupId, uint32_t /*index*/) {
    return kNoBlock;
  }
  // The slot of a recurrent group with the state after the whole blocks that it meant, `tokens`.
  virtual BlockId found_state(const BlockSequence&, GroupId, uint32_t /*tokens*/) {
    return kNoBlock;
  }
  // After which of the known tokens in (from, end] the state is worth keeping, rising. A grant
  // after `from` computes them all; it has slots for the first ones, as far as some are to spare.
  virtual OnTheWay worth_keeping(BlockSequence&, std::span<const TokenId>, uint32_t /*from*/,
                                 uint32_t /*end*/) {
    return {};
  }
  // Memory for the sequence reaches `granted` now, maybe after a step in flight; the first
  // `shared` tokens are what was found.
  virtual void grown(BlockSequence&, std::span<const TokenId>, uint32_t /*shared*/) {}
  // Memory for the sequence reaches only to `granted` now, less than before.
  virtual void trimmed(BlockSequence&) {}
  // The first `computed` tokens are final. The slots of states after fewer tokens are about to be
  // given back, and those of later tokens as well, unless these are `in_flight`.
  virtual void passing_states(BlockSequence&, std::span<const TokenId>, bool /*in_flight*/) {}
  // The first `computed` tokens are final; windows have not moved yet. Later tokens are in flight.
  virtual void resolved(BlockSequence&, std::span<const TokenId>) {}
  // All blocks are about to be given back; then the sequence ends, if it does.
  virtual void releasing(BlockSequence&) {}
  virtual void ended(BlockSequence&) {}
  // A cached block, or slot of a state, is handed out to hold something else.
  virtual void evicted(GroupId, BlockId) {}
  virtual Status check_more() const { return {}; }

  static Status wrong(const std::string& text) {
    return Status::error(StatusCode::invalid_argument, text);
  }
  static Status broken(const std::string& text) {
    return Status::error(StatusCode::internal, text);
  }
  const std::string& id() const { return id_; }
  // Those that hold tokens, and those that hold states.
  std::vector<BlockGroup>& groups() { return groups_; }
  const std::vector<BlockGroup>& groups() const { return groups_; }
  std::vector<StateGroup>& states() { return states_; }
  const std::vector<StateGroup>& states() const { return states_; }
  StateTable& state(BlockSequence& sequence, const StateGroup& group) {
    return sequence.states[static_cast<size_t>(&group - states_.data())];
  }
  const StateTable& state(const BlockSequence& sequence, const StateGroup& group) const {
    return sequence.states[static_cast<size_t>(&group - states_.data())];
  }
  KvCounters& counters() { return counters_; }
  const HostServices& host() const { return host_; }
  // Of hooks that move entries of a sequence's own; make room before what cannot fail.
  MoveQueue& moves() { return moves_; }
  // Null where there is none.
  BlockSequence* find(SeqId seq) {
    const uint32_t slot = slots_.find(seq);
    return slot == SequenceMap::kNone ? nullptr : sequences_[slot].get();
  }
  static Status unknown(SeqId seq) { return wrong("no sequence " + std::to_string(seq)); }
  uint32_t context_tokens() const { return context_; }
  template <typename Visit>
  void each_sequence(Visit visit) const {
    for (const auto& sequence : sequences_) {
      if (sequence->id != kNoSeq) visit(*sequence);
    }
  }

 private:
  struct Range {
    uint32_t at_least;
    uint32_t at_most;
  };
  // Where the K/V of a sequence that holds nothing come from.
  struct Reuse {
    uint32_t tokens = 0;    // in all
    uint32_t shared = 0;    // of them, in whole blocks to share
    uint32_t partial = 0;   // of them, to copy from a cached block
    uint32_t restored = 0;  // of them, to bring back from the pool
  };

  template <typename Visit>
  void each_pool(Visit visit) {
    for (BlockGroup& group : groups_) visit(group.pool), visit(group.swap);
    for (StateGroup& group : states_) visit(group.pool), visit(group.swap);
  }
  template <typename Groups>
  static auto* find_group(Groups& groups, GroupId id) {
    const auto found = std::find_if(groups.begin(), groups.end(),
                                    [id](const auto& group) { return group.id() == id; });
    return found == groups.end() ? nullptr : &*found;
  }
  Status bind_groups(const ModelShape& model, const KvGeometry& geometry);
  Status show_table(BlockSequence& sequence, GroupId id, KvTableView& out);
  Status begin_sequence(const KvSequence& sequence);
  Status check_fork(const KvSequence& sequence, const BlockSequence& parent, uint32_t limit);
  bool tail_as_it_is(const BlockSequence& parent, uint32_t tokens) const;
  // Whether a fork at `tokens` needs a copy of the parent's last block.
  bool copies_tail(const BlockGroup& group, const BlockSequence& parent, uint32_t tokens) const;
  void share_parent(BlockSequence& child, const BlockSequence& parent, uint32_t tokens);
  BlockSequence& blank(SeqId seq, uint32_t limit);
  void match_blocks(const BlockGroup& group, BlockSequence& sequence, const Reuse& reuse,
                    uint32_t wanted, KvMatch& out);
  void match_states(const StateGroup& group, BlockSequence& sequence, const Reuse& reuse,
                    uint32_t known, uint32_t wanted, KvMatch& out);
  Status match_sequence(SeqId seq, std::span<const TokenId> tokens, uint32_t wanted, KvMatch& out);
  Status grow_sequence(const KvRequest& request, KvGrant& out);
  Status room_for(BlockSequence& sequence, const KvRequest& request, const Reuse& reuse,
                  uint64_t& most);
  void give_blocks(BlockSequence& sequence, const Reuse& reuse, uint32_t from, uint32_t end);
  OnTheWay on_the_way(BlockSequence& sequence, const KvRequest& request, const Reuse& reuse,
                      uint32_t end);
  void give_states(BlockSequence& sequence, const KvRequest& request, const Reuse& reuse,
                   const OnTheWay& on_the_way);
  Reuse reuse_for(const BlockSequence& sequence, const Found& found) const;
  static Range still_useful(Range range, uint32_t known, const Reuse& reuse);
  // Blocks of the pool that hits of the reuse are, though they count as available.
  uint32_t pinned(const BlockGroup& group, const BlockSequence& sequence, const Reuse& reuse);
  // Slots of the pool that the state to start from takes.
  uint32_t start_slots(const StateGroup& group, const BlockSequence& sequence, const Reuse& reuse);
  void take_found(BlockGroup& group, BlockSequence& sequence, const Reuse& reuse);
  void bring_in(BlockGroup& group, BlockSequence& sequence, const Reuse& reuse);
  // Evicts until so many blocks are free; so many are available.
  template <typename Group>
  void make_free(Group& group, uint32_t blocks) {
    for (; group.pool.free_count() < blocks; ++counters_.evicted_blocks) {
      evicted(group.id(), group.pool.evict());
    }
  }
  BlockId take(BlockGroup& group) {
    make_free(group, 1);
    return group.pool.take();
  }
  KvDecodes offered_decodes() {
    return {.self = this,
            .grow = [](void* self, uint64_t step_id,
                       std::span<const KvDecode> decodes) noexcept -> Status {
              return guard(
                  [&] { return static_cast<BlockManager*>(self)->grow_decodes(step_id, decodes); });
            },
            .resolve = [](void* self, uint64_t step_id,
                          std::span<const KvDecode> decodes) noexcept -> Status {
              return guard([&] {
                return static_cast<BlockManager*>(self)->resolve_decodes(step_id, decodes);
              });
            }};
  }
  Status grow_decodes(uint64_t step_id, std::span<const KvDecode> decodes);
  Status resolve_decodes(uint64_t step_id, std::span<const KvDecode> decodes);
  bool is_plain_decode(const BlockSequence& sequence, const KvDecode& decode) const;
  static bool begins_block(const BlockGroup& group, uint32_t computed);
  // The position before which a grant from `from` on ends, in every group.
  uint32_t next_eviction(uint32_t from) const;
  // Blocks that hold `tokens`, of all groups.
  size_t blocks_for(uint32_t tokens) const;
  Status check_states(const BlockSequence& sequence, const KvOutcome& outcome) const;
  Status trim_sequence(SeqId seq, uint32_t tokens);
  Status resolve_sequence(const KvOutcome& outcome);
  void gather(const BlockSequence& sequence, uint32_t base, std::span<const uint32_t> kept);
  Status release_sequence(SeqId seq, ReleaseHow how);
  Status swap_out(BlockSequence& sequence);
  void drop_blocks(BlockSequence& sequence);
  void drop_swapped(BlockSequence& sequence);
  Status usage_of(GroupId group, KvUsage& out) const;
  Status check_groups() const;
  Status check_slots(const StateGroup& group, const BlockSequence& sequence) const;
  Status check_table(const BlockGroup& group, const BlockSequence& sequence) const;

  std::string id_;
  HostServices host_;
  EvictionOrder order_;
  std::vector<BlockGroup> groups_;
  std::vector<StateGroup> states_;
  SequenceMap slots_;
  std::vector<std::unique_ptr<BlockSequence>> sequences_;  // [slots]
  std::vector<uint32_t> idle_;  // slots of ended ones, whose memory is used again
  MoveQueue moves_;
  KvCounters counters_;
  uint64_t step_ = 0;
  uint32_t context_ = 0;
  uint32_t max_sequences_ = 0;
  GroupId ledger_group_ = 0;
  const KvDecodes decodes_;
  std::vector<BlockSequence*> decoding_;  // of the step at hand
};

}  // namespace tenon::sdk
