// Memory behind a KV manager that remembers what every slot holds.
//
// A slot of the cache or of the pool holds the identity of one token: a hash of the key and of all
// tokens up to it. A slot of recurrent state holds the identity of the last token that went in.
#pragma once

#include <tenon/kv_cache.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/conformance/worlds/kv_groups.h"

namespace tenon {

// A table as a step was launched with it.
struct KvTableCopy {
  explicit KvTableCopy(const KvTableView& view)
      : borrowed(view),
        blocks(view.blocks.begin(), view.blocks.end()),
        ends(view.ends.begin(), view.ends.end()) {}

  KvTableView borrowed;
  std::vector<BlockId> blocks;
  std::vector<uint32_t> ends;

  bool names(BlockId block) const {
    return block != kNoBlock && std::find(blocks.begin(), blocks.end(), block) != blocks.end();
  }
};

class KvMemory {
 public:
  explicit KvMemory(const std::vector<KvTestGroup>& groups) : groups_(groups) {
    for (const KvTestGroup& group : groups) {
      cache_.emplace_back(size_t{group.blocks} * group.block_tokens, 0);
      pool_.emplace_back(size_t{group.swap_blocks} * group.block_tokens, 0);
    }
  }

  static uint64_t scramble(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  static uint64_t root(const CacheKey& key) { return scramble(key.salt + 77); }
  static uint64_t behind(uint64_t identity, TokenId token) {
    return scramble(identity + static_cast<uint32_t>(token) + 1);
  }
  // What the first `count` positions of a sequence must hold.
  static std::vector<uint64_t> identities(const CacheKey& key, std::span<const TokenId> tokens) {
    std::vector<uint64_t> made;
    uint64_t state = root(key);
    for (TokenId token : tokens) made.push_back(state = behind(state, token));
    return made;
  }

  // Of a token group: the slot of a position, or null where the table has none.
  uint64_t* slot(GroupId group, const KvTableCopy& table, uint32_t position) {
    const uint32_t size = groups_[group].block_tokens;
    const uint32_t evicted = table.borrowed.evicted, sinks = groups_[group].sink_tokens;
    if (position >= sinks && position < sinks + evicted) return nullptr;
    const uint32_t at = position < sinks ? position : position - evicted;
    const uint32_t entry = at / size;
    if (entry >= table.blocks.size() || table.blocks[entry] == kNoBlock) return nullptr;
    return &cell(group, {{}, table.blocks[entry], at % size});
  }
  uint64_t& cell(GroupId group, const KvPlace& place) {
    auto& store = place.tier == KvTier::swap ? pool_[group] : cache_[group];
    return store.at(static_cast<size_t>(place.block) * groups_[group].block_tokens + place.token);
  }

  void carry(const KvMove& move) {
    std::vector<uint64_t> read;
    for (uint32_t t = 0; t < move.tokens; ++t) read.push_back(cell(move.group, at(move.from, t)));
    for (uint32_t t = 0; t < move.tokens; ++t) cell(move.group, at(move.to, t)) = read[t];
    copied_tokens_ += move.tokens;
  }
  uint64_t copied_tokens() const { return copied_tokens_; }

 private:
  static KvPlace at(KvPlace place, uint32_t tokens) {
    place.token += tokens;
    return place;
  }

  std::vector<KvTestGroup> groups_;
  std::vector<std::vector<uint64_t>> cache_, pool_;  // [groups][slots]
  uint64_t copied_tokens_ = 0;
};

}  // namespace tenon
