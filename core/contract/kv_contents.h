// What every slot of the KV cache holds, as far as the host can know: which row was written there.
// With it a step is refused, before it runs, that would read the K/V of other tokens than its
// sequences' own, whatever a KV manager did wrong: blocks handed out twice, prefixes that are not
// what was asked for, moves that went elsewhere, tables that name the wrong block.
//
// A row is named by a hash over its sequence's key and its tokens up to it, so equal names mean
// equal K/V. Each step writes the names of its rows into the slots they are stored in, and holds
// the names in the slots it reads against what the sequence's tokens say. A slot that was held once
// is not looked at again unless somebody wrote into a block that several sequences know of; so the
// usual step looks at the blocks it writes to, and compares tables with those of the step before.
//
// Groups of recurrent state are StateContents'; those of a second model are left out: nothing of
// them decides a token without being verified by the target.
#pragma once

#include <tenon/batch.h>
#include <tenon/kv_cache.h>
#include <tenon/model.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/contract/state_contents.h"

namespace tenon {

class KvContents {
 public:
  // `shape` is the target's; its groups are the first of `geometry`. Both outlive it.
  KvContents(const ModelShape& shape, const KvGeometry& geometry);

  void begin(const KvSequence& sequence);
  // All that is known of a sequence's tokens now; tokens of one sequence never change.
  void know(SeqId seq, std::span<const TokenId> tokens);
  // Of the sequence only the first `tokens` are still in the cache, as far as a window shows them.
  void keep(SeqId seq, uint32_t tokens);
  void release(SeqId seq, ReleaseHow how);
  // Carried out before the next step. In range.
  void move(const KvMove& move);

  // About to be launched. The error names the table entry that is at fault.
  Status write(const BatchView& batch);

 private:
  using RowName = uint64_t;  // 0 = nothing was written
  // Counts in blocks. Nearly all sizes are powers of two, and divisions are what steps would wait
  // for.
  class BlockSize {
   public:
    explicit BlockSize(uint32_t tokens = 1)
        : tokens_(tokens), shift_(std::has_single_bit(tokens) ? std::countr_zero(tokens) : -1) {}
    uint32_t tokens() const { return tokens_; }
    uint32_t block_of(uint32_t entry) const {
      return shift_ >= 0 ? entry >> shift_ : entry / tokens_;
    }
    uint32_t blocks_of(uint32_t tokens) const { return tokens == 0 ? 0 : block_of(tokens - 1) + 1; }
    // Of an entry that stands in `block`.
    uint64_t slot(BlockId block, uint32_t entry) const {
      return uint64_t{static_cast<uint32_t>(block)} * tokens_ + entry - block_of(entry) * tokens_;
    }

   private:
    uint32_t tokens_;
    int shift_;
  };
  struct Table {
    std::vector<BlockId> blocks;            // as last seen; kNoBlock where none was needed
    size_t whole_first = 0, whole_end = 0;  // of them these are blocks
    size_t first = 0;                       // blocks in front of it are left behind by a window
    uint32_t held = 0;                      // leading entries whose slots hold what they must
  };
  struct Known {
    SeqId seq = kNoSeq;
    RowName seed = 0;
    uint32_t limit_tokens = 0;
    std::vector<RowName> rows;  // of its known tokens
    std::vector<Table> tables;  // [groups]
    uint64_t epoch = 0;         // of `overwritten_` that `held` is about
  };
  struct Holder {
    SeqId seq = kNoSeq;
    uint32_t entry = 0;
  };
  struct Group {
    BlockSize block;
    uint32_t window_tokens = 0;
    bool kept_track_of = false;
    std::vector<RowName> slots, swap_slots;  // [blocks, block_tokens]
    std::vector<uint32_t> tables;            // [blocks] that name the block, as last seen
    std::vector<Holder> holders;             // [blocks] the latest of them
  };
  struct Entries {
    uint32_t first = 0;  // seen by the first row
    uint32_t base = 0;   // where its rows are stored
    uint32_t end = 0;
  };

  // A table of the step at hand, of a group that is kept track of.
  struct Visit {
    const BatchSequence* sequence = nullptr;
    Known* known = nullptr;
    Table* seen = nullptr;
    Entries entries;
    GroupId group = 0;
  };
  Known* find(SeqId seq);  // null where it is not known
  Known& known(SeqId seq);
  static RowName extended(RowName before, TokenId token);
  void name_rows(const BatchView& batch, const BatchSequence& sequence, const Known& known);
  static Entries entries_of(const BatchView& batch, size_t index, GroupId id, const Group& group);
  Status see_table(const KvTableView& table, const BatchSequence& sequence, const Entries& entries,
                   GroupId id, Table& seen);
  Status see_tables(const BatchView& batch);
  Status store_rows(const BatchView& batch);
  Status hold(const Visit& visit) const;
  StateContents::Rows rows_of(const BatchView& batch, const BatchSequence& sequence);
  Status step_states(const BatchView& batch);
  void forget(Table& table, GroupId id, size_t first, size_t last);

  std::vector<Group> groups_;
  StateContents states_;
  std::unordered_map<SeqId, Known> sequences_;
  std::vector<Known*> recent_;      // by the last bits of their ids; a power of two
  std::vector<RowName> row_names_;  // [rows] of the step at hand
  std::vector<Visit> visits_;       // likewise
  uint64_t overwritten_ = 0;        // writes into blocks that several sequences know of
};

}  // namespace tenon
