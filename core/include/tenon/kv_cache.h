// KVCacheManager: hands out the blocks in which K and V are stored, shares them, evicts them.
//
// Managers own numbers, executors own bytes. A manager deals in block ids and emits moves; the
// executor allocates storage from the negotiated geometry and carries the moves out; the attention
// kernel reads and writes through the tables. So one manager serves a CPU, a GPU, and a simulator
// that has no memory at all.
//
// A manager promises
//   - that no block is written by two sequences: a shared block is copied before a write (a move);
//   - that a failed call changes nothing (`out_of_kv` is normal flow);
//   - that a released block is handed out again only when every step that was planned with it
//     (`step_begin`) has been collected (`step_done`); at once when they have been already.
//
// Recurrent groups. A block is a slot that holds one sequence's state after some number of tokens.
// At launch it is not known where among its known tokens and drafts a step will end, so the table
// names one slot for the state that the step starts from and one for each token count at which it
// may end; `resolve` keeps the one at which it did end.
//
// It may assume that calls name live sequences and that tokens passed are the sequence's own.
// Threads: every method is [step]; `bind` is [control].
#pragma once

#include <tenon/model.h>
#include <tenon/scheduler.h>
#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>

namespace tenon {

// Sequences whose keys differ never share a block.
struct CacheKey {
  uint64_t salt = 0;
  uint64_t adapter = 0;
  std::span<const uint64_t> content;  // hashes of inputs that are not tokens
};

struct KvSequence {
  SeqId seq = kNoSeq;
  CacheKey key;
  uint32_t limit_tokens = 0;   // the sequence never holds more
  SeqId parent = kNoSeq;       // fork: share the parent's blocks …
  uint32_t parent_tokens = 0;  // … for its first `parent_tokens` tokens
};

struct KvMatch {
  uint32_t ready = 0;     // leading tokens reusable now: found in the cache, or swapped out
  uint32_t promised = 0;  // further ones that another sequence is computing
  // What holding `wanted_tokens` (at least one more than `ready`) takes from the ledger group's
  // KvUsage::free_tokens, in whole blocks: new ones, a shared one's copy, cached ones nobody holds.
  uint64_t tokens_needed = 0;
  uint64_t tokens_held = 0;  // slots this sequence holds now
  uint64_t tokens_exclusive = 0;
};

// A sequence's request for slots in a step.
struct KvRequest {
  SeqId seq = kNoSeq;
  std::span<const TokenId> tokens;  // ids known now
  // The fewest tokens that it may hold after this step if all of the grant is computed: those of
  // `tokens`, and with planning ahead one more that is not drawn yet. Slots beyond are for drafts.
  uint32_t known_tokens = 0;
  uint32_t computed = 0;  // before the step; tokens in flight count
  uint32_t at_least = 0;  // slots beyond `computed`, counted after any reuse
  uint32_t at_most = 0;
};

struct KvGrant {
  uint32_t reused = 0;    // tokens found in the cache and now held
  uint32_t granted = 0;   // tokens beyond computed + reused that have slots
  uint32_t restored = 0;  // of the reused ones, brought back from the swap pool
};

// The outcome of a step for one sequence.
struct KvOutcome {
  SeqId seq = kNoSeq;
  std::span<const TokenId> tokens;  // ids, at least of the first `computed`
  uint32_t base = 0;                // computed before the step
  std::span<const uint32_t> kept;   // offsets from `base` of the slots that survive, rising
  uint32_t computed = 0;            // base + kept.size()
  // Slots that a later step was granted meanwhile: they stay; `kept` names every slot of this one.
  uint32_t in_flight = 0;
};

// A group's table: blocks[b] has the stored entries [b·block_tokens, (b+1)·block_tokens). Blocks
// that a window has passed are kNoBlock. Position p is stored at entry p, or at p - evicted if a
// lossy manager took out entries before it.
// In a recurrent group, blocks[0] has the state after ends[0] tokens, where the step starts
// (kNoBlock: no tokens yet), and the step writes the one after ends[i] tokens, i > 0, to blocks[i],
// as far as its rows reach.
struct KvTableView {
  std::span<const BlockId> blocks;
  std::span<const uint32_t> ends;  // recurrent groups only, rising
  uint32_t evicted = 0;            // entries taken out so far; the gap is closed
};

// The storages that a group has: the cache, which kernels read and write through tables, and the
// swap pool, which only moves reach. A place's `space` is its tier's.
enum class KvTier : uint8_t { cache = 0, swap = 1 };

// Ordered: a later move may read what an earlier one wrote, and all moves handed over before a step
// is launched come before what the step writes. Whole tokens, all layers of a group.
struct KvPlace {
  Space space;
  BlockId block = kNoBlock;  // of the tier
  uint32_t token = 0;
  KvTier tier = KvTier::cache;
};
struct KvMove {
  GroupId group = 0;
  KvPlace from;
  KvPlace to;
  uint32_t tokens = 0;
};
struct KvMovesOut {
  std::span<KvMove> moves;
  uint32_t count = 0;
};

// One group's usage, in tokens or slots. total = reserved + free + those that await `step_done`.
struct KvUsage {
  uint64_t total_tokens = 0;
  uint64_t reserved_tokens = 0;    // slots held by sequences
  uint64_t used_tokens = 0;        // of them, slots that hold K/V of a sequence
  uint64_t cached_tokens = 0;      // held by no sequence, reusable by a later match
  uint64_t free_tokens = 0;        // could be granted now, cached ones included
  uint64_t swap_total_tokens = 0;  // the swap pool
  uint64_t swapped_tokens = 0;     // of it, slots that hold K/V of waiting sequences
};

// A manager that evicts offers this as extension kKvEviction. The entries that the row at position
// p sees follow from p (and, with kKvScores, from the tokens up to it): no step computes rows of a
// sequence on both sides of `first` + n · `every`.
inline constexpr std::string_view kKvEviction = "kv_eviction/1";
struct KvEviction {
  uint32_t first = 0;         // the first position whose row does not see all before it
  uint32_t every = 1;         // every so many positions, others are evicted
  uint32_t most_tokens = 0;   // slots that a sequence holds at once, in a group that evicts
  std::string_view numerics;  // which entries rows see, for the numerics id
};

// A manager that evicts by weight also offers this as extension kKvScores. `add` takes the weights
// that rows gave to the entries of the table that they read, [kv_tokens] (AttentionScores), for
// each group of tokens without a window, before the `resolve` that keeps the rows. [step]
inline constexpr std::string_view kKvScores = "kv_scores/1";
struct KvScores {
  void* self = nullptr;
  Status (*add)(void* self, SeqId, GroupId, std::span<const uint64_t> sums) noexcept = nullptr;
};

class KVCacheManager {
 public:
  // Once, before anything else. [control]
  virtual Status bind(const ModelShape& model, const KvGeometry& geometry) noexcept = 0;

  // A sequence exists from `begin` to `release(…, end)`. It holds no blocks yet but a parent's.
  virtual Status begin(const KvSequence& sequence) noexcept = 0;

  // Says which of `tokens` (all known ids of the sequence) the cache has, and how much holding
  // `wanted_tokens` of them would take. Changes nothing.
  virtual Status match(SeqId seq, std::span<const TokenId> tokens, uint32_t wanted_tokens,
                       KvMatch& out) noexcept = 0;

  // Slots for at_least … at_most tokens beyond `computed`. If a prefix is found, it is held first
  // and the counts start after it; at least the last of `tokens` is always left to compute.
  // Asked again in one step it may give more. out_of_kv: not even at_least fits; nothing changed.
  virtual Status grow(const KvRequest& request, KvGrant& out) noexcept = 0;

  // When planning is done, for a sequence that was granted more slots than the step will compute:
  // `tokens` of them stay (0 = none), others go. Nothing becomes final; reused tokens stay held.
  virtual Status trim(SeqId seq, uint32_t tokens) noexcept = 0;

  // After a step that ran, in the order of steps: the first `computed` tokens are final. When
  // `kept` is not the leading slots (the accepted path of a tree), moves bring them together. Slots
  // beyond `computed` and those in flight are given back. Commit and rollback in one.
  virtual Status resolve(const KvOutcome& outcome) noexcept = 0;

  // Gives a sequence's blocks back. `end` forgets the sequence; the others keep it, holding
  // nothing. `swap` moves what is computed to the swap pool first; the next `grow`, with `computed`
  // 0, moves it back and reports it as reused. A sequence that is released again before `resolve`
  // still has its copy there. `swap` may be refused: no pool (unsupported), no room (out_of_kv).
  virtual Status release(SeqId seq, ReleaseHow how) noexcept = 0;

  // Of the latest grant. Borrowed until its step is resolved or the sequence released: planning
  // further and resolving earlier steps change no entry that the step's rows see.
  virtual Status table(SeqId seq, GroupId group, KvTableView& out) noexcept = 0;

  // Hands over moves in order; call again while `count` fills the room.
  virtual Status take_moves(KvMovesOut& out) noexcept = 0;

  // `begin` and `grow` from here on are for step `step_id`, until the next call. Ids rise by one.
  virtual Status step_begin(uint64_t step_id) noexcept = 0;
  // Every step up to `step_id` was collected, or will never be launched.
  virtual Status step_done(uint64_t step_id) noexcept = 0;

  virtual Status usage(GroupId group, KvUsage& out) const noexcept = 0;

  // Counts every block and reference; an error names the first broken invariant. May be slow.
  virtual Status check() const noexcept = 0;

 protected:
  ~KVCacheManager() = default;
};

}  // namespace tenon
