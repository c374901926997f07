// What names K/V that outlives its sequence: its content, so that equal keys mean equal bytes,
// in another process and on another day as well.
//
// docs/formats/kv-files.md defines the digests.
#pragma once

#include <tenon/types.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace tenon {

// SHA-256 over everything that K/V follow from: the model, how it computes, the sequence's key and
// all tokens up to the end of a block.
using ContentDigest = std::array<uint8_t, 32>;

// One group's part of it: K and V of the tokens of that block, or the recurrent state after them.
struct KvKey {
  ContentDigest content = {};
  GroupId group = 0;

  friend bool operator==(const KvKey&, const KvKey&) = default;
};

struct KvKeyHash {
  size_t operator()(const KvKey& key) const {
    size_t word = 0;
    std::memcpy(&word, key.content.data(), sizeof(word));
    return word ^ (size_t{key.group} * 0x9e3779b97f4a7c15u);
  }
};

// Of all keys under which a sequence's blocks lie: of no tokens yet. `world` says what everything
// follows from (model, numerics id, geometry), `adapter` which adapter's weights (empty: none).
ContentDigest root_digest(const std::string& world, uint64_t salt, const std::string& adapter);
// After one more whole block of tokens.
ContentDigest next_digest(const ContentDigest& before, std::span<const TokenId> block);

}  // namespace tenon
