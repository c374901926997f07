// What an executor does of a step, over memory that remembers: moves, rows, states; and what rows
// read is looked at.
#pragma once

#include <tenon/kv_cache.h>

#include <span>
#include <string>
#include <vector>

#include "core/conformance/worlds/kv_memory.h"

namespace tenon {

// A sequence's part in a step.
struct KvShare {
  SeqId seq = kNoSeq;
  uint32_t base = 0;
  uint32_t rows = 0;             // of known tokens
  uint32_t slots = 0;            // those of drafts included
  std::vector<int32_t> parents;  // of drafts; -1 = the last known token
  std::vector<TokenId> drafts;
  std::vector<KvTableCopy> tables;  // [groups]
  bool dropped = false;
};
struct KvLaunch {
  uint64_t step = 0;
  std::vector<KvMove> moves;
  std::vector<KvShare> shares;

  const KvShare* find(SeqId seq) const {
    for (const KvShare& share : shares) {
      if (share.seq == seq) return &share;
    }
    return nullptr;
  }
};

class KvDevice {
 public:
  // Notes in `fault` what is wrong; it outlives the device.
  KvDevice(const std::vector<KvTestGroup>& groups, FirstFault& fault)
      : groups_(groups), memory_(groups), fault_(fault) {}

  const KvMemory& memory() const { return memory_; }
  void carry(const std::vector<KvMove>& moves) {
    for (const KvMove& move : moves) memory_.carry(move);
  }
  uint64_t state(GroupId group, BlockId slot) { return memory_.cell(group, {{}, slot}); }

  // Planning further has not changed what the step was launched with.
  void expect_as_launched(const KvShare& share) {
    for (GroupId g = 0; g < groups_.size(); ++g) {
      const KvTableCopy& table = share.tables[g];
      const uint32_t size = groups_[g].block_tokens;
      const uint32_t seen = first_visible(share.base, groups_[g].window_tokens) / size;
      for (size_t i = groups_[g].recurrent() ? 0 : seen; i < table.blocks.size(); ++i) {
        fault_.expect(table.borrowed.blocks[i] == table.blocks[i],
                      "planning further changed entry " + std::to_string(i) + " of the table of " +
                          named(share.seq, g) + ", which a step in flight reads");
      }
      for (size_t i = 0; i < table.ends.size(); ++i) {
        fault_.expect(table.borrowed.ends[i] == table.ends[i],
                      "planning further changed the ends of " + named(share.seq, g));
      }
    }
  }

  // Rows of known tokens and of drafts, in every group; then what they read is looked at.
  void write(const KvShare& share, const CacheKey& key, std::span<const TokenId> tokens) {
    const std::span<const TokenId> known = tokens.first(share.base + share.rows);
    std::vector<uint64_t> ids = KvMemory::identities(key, known);
    const uint64_t root = ids.empty() ? KvMemory::root(key) : ids.back();
    for (size_t d = 0; d < share.drafts.size(); ++d) {
      const int32_t parent = share.parents[d];
      ids.push_back(KvMemory::behind(
          parent < 0 ? root : ids[known.size() + static_cast<size_t>(parent)], share.drafts[d]));
    }
    for (GroupId g = 0; g < groups_.size(); ++g) {
      if (groups_[g].recurrent()) {
        advance(share, g, ids, KvMemory::root(key));
        continue;
      }
      for (uint32_t p = share.base; p < ids.size(); ++p) {
        uint64_t* at = memory_.slot(g, share.tables[g], p);
        if (!fault_.expect(at != nullptr, named(share.seq, g) + " has no slot for position " +
                                              std::to_string(p) + ", which was granted")) {
          return;
        }
        *at = ids[p];
      }
      read(share.seq, g, share.tables[g], share.base, std::span(ids).first(known.size()));
    }
  }
  void spoil(const KvShare& share) {
    for (GroupId g = 0; g < groups_.size(); ++g) {
      const KvTableCopy& table = share.tables[g];
      if (groups_[g].recurrent()) {
        for (size_t i = 1; i < table.blocks.size(); ++i) {
          memory_.cell(g, {{}, table.blocks[i]}) = ++junk_;
        }
        continue;
      }
      for (uint32_t p = share.base; p < share.base + share.slots; ++p) {
        if (uint64_t* at = memory_.slot(g, table, p); at != nullptr) *at = ++junk_;
      }
    }
  }
  // A recurrent group: from the state that the table names to those after its rows.
  void advance(const KvShare& share, GroupId g, std::span<const uint64_t> ids, uint64_t root) {
    const KvTableCopy& table = share.tables[g];
    const bool sound = table.blocks.size() == table.ends.size() && !table.ends.empty() &&
                       table.ends[0] == share.base &&
                       (table.blocks[0] == kNoBlock) == (share.base == 0);
    if (!fault_.expect(sound, "the table of " + named(share.seq, g) +
                                  " does not start at the state behind what is computed")) {
      return;
    }
    const uint64_t start = share.base == 0 ? root : memory_.cell(g, {{}, table.blocks[0]});
    if (!fault_.expect(start == (share.base == 0 ? root : ids[share.base - 1]),
                       named(share.seq, g) + " starts from another state than its own")) {
      return;
    }
    for (size_t i = 1; i < table.ends.size(); ++i) {
      if (!fault_.expect(table.ends[i] > table.ends[i - 1],
                         "the ends of " + named(share.seq, g) + " do not rise")) {
        return;
      }
      const bool reached = table.ends[i] <= ids.size();
      memory_.cell(g, {{}, table.blocks[i]}) = reached ? ids[table.ends[i] - 1] : ++junk_;
    }
  }
  void read(SeqId seq, GroupId g, const KvTableCopy& table, uint32_t row,
            std::span<const uint64_t> ids) {
    const uint32_t evicted = groups_[g].evicted(row), sinks = groups_[g].sink_tokens;
    if (!fault_.expect(table.borrowed.evicted == evicted,
                       named(seq, g) + " evicted " + std::to_string(table.borrowed.evicted) +
                           " entries, not " + std::to_string(evicted))) {
      return;
    }
    for (uint32_t p = first_visible(row, groups_[g].window_tokens); p < ids.size(); ++p) {
      if (p >= sinks && p < sinks + evicted) continue;
      const uint64_t* at = memory_.slot(g, table, p);
      if (!fault_.expect(at != nullptr, named(seq, g) + " lost position " + std::to_string(p))) {
        return;
      }
      if (!fault_.expect(*at == ids[p], named(seq, g) + " reads at position " + std::to_string(p) +
                                            " of " + std::to_string(ids.size()) +
                                            " what was computed for other tokens")) {
        return;
      }
    }
  }

 private:
  static std::string named(SeqId seq, GroupId group) {
    return "sequence " + std::to_string(seq) + " in group " + std::to_string(group);
  }

  std::vector<KvTestGroup> groups_;
  KvMemory memory_;
  FirstFault& fault_;
  uint64_t junk_ = 1;
};

}  // namespace tenon
