// What cached blocks hold: a tree of contents. A node is a block's worth of tokens behind its
// parent's, a root is the key under which sequences may share; so a node names a whole prefix, and
// two prefixes are the same exactly when their nodes are.
//
//   key ── "The cat sat" ── " on the mat" ── …
//                       └── " on the rug"          each node: tokens, and the blocks that hold them
//
// Nodes are found by hash (of the parent's hash and the tokens) and confirmed by comparing parent
// and tokens, so a collision costs time and nothing else. A node lives while it has children,
// blocks, or sequences whose tokens it names.
#pragma once

#include <tenon/kv_cache.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::sdk {

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = 0xffffffffu;

class PrefixIndex {
 public:
  // `blocks`: of each group. Up to `nodes` nodes no call allocates. Fewer `hash_bits` than 64 make
  // collisions, for tests.
  void reset(std::span<const uint32_t> blocks, uint32_t block_tokens, size_t nodes,
             uint32_t hash_bits) {
    *this = PrefixIndex();
    block_tokens_ = block_tokens;
    hash_mask_ = hash_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << hash_bits) - 1;
    groups_ = blocks.size();
    for (uint32_t count : blocks) of_block_.emplace_back(count, Entry());
    nodes_.reserve(nodes);
    tokens_.reserve(nodes * block_tokens);
    first_block_.reserve(nodes * groups_);
    free_.reserve(nodes);
    size_t buckets = 64;
    while (buckets < nodes) buckets *= 2;
    buckets_.assign(buckets, kNoNode);
  }

  // The root of a key; held for the caller, who lets go of it.
  NodeId hold_root(const CacheKey& key) {
    std::vector<uint64_t> words{key.salt, key.adapter};
    words.insert(words.end(), key.content.begin(), key.content.end());
    uint64_t hash = kSeed;
    for (uint64_t word : words) hash = mix(hash, word);
    hash &= hash_mask_;
    NodeId node = bucket(hash);
    while (node != kNoNode && !(nodes_[node].hash == hash && nodes_[node].parent == kNoNode &&
                                keys_.at(node) == words)) {
      node = nodes_[node].next;
    }
    if (node == kNoNode) {
      node = make(kNoNode, hash, {});
      keys_.emplace(node, std::move(words));
    }
    ++nodes_[node].holders;
    return node;
  }

  // The node of `tokens` (1 … block_tokens) behind `parent`, made where there is none. Not held:
  // whoever keeps it holds it before anything else is called.
  NodeId intern(NodeId parent, std::span<const TokenId> tokens) {
    const uint64_t hash = hash_of(nodes_[parent].hash, tokens);
    for (NodeId node = bucket(hash); node != kNoNode; node = nodes_[node].next) {
      if (is(node, parent, hash, tokens)) return node;
      collisions_ += nodes_[node].hash == hash;
    }
    ++nodes_[parent].holders;
    return make(parent, hash, tokens);
  }

  void hold(NodeId node) { ++nodes_[node].holders; }
  void let_go(NodeId node) {
    while (node != kNoNode && --nodes_[node].holders == 0) {
      const NodeId parent = nodes_[node].parent;
      unlink(node);
      node = parent;
    }
  }

  // Another sequence may wait for what is being computed: calls are counted.
  void promise(NodeId node) { ++nodes_[node].promises; }
  void take_promise_back(NodeId node) { --nodes_[node].promises; }
  bool promised(NodeId node) const { return nodes_[node].promises > 0; }

  // A block of a group now holds the node's tokens; several may.
  void attach(GroupId group, BlockId block, NodeId node) {
    Entry& entry = of_block_[group][static_cast<size_t>(block)];
    BlockId& first = first_block(node, group);
    entry = {node, first};
    first = block;
    hold(node);
  }
  // It no longer does. Returns the node, which may be gone.
  NodeId detach(GroupId group, BlockId block) {
    Entry& entry = of_block_[group][static_cast<size_t>(block)];
    const NodeId node = entry.node;
    BlockId* link = &first_block(node, group);
    while (*link != block) link = &of_block_[group][static_cast<size_t>(*link)].next;
    *link = entry.next;
    entry = {};
    let_go(node);
    return node;
  }
  // A block that holds the node's tokens, or kNoBlock.
  BlockId block_of(NodeId node, GroupId group) const {
    return first_block_[node * groups_ + group];
  }
  uint32_t blocks_of(NodeId node, GroupId group) const {
    uint32_t count = 0;
    for (BlockId block = block_of(node, group); block != kNoBlock; ++count) {
      block = of_block_[group][static_cast<size_t>(block)].next;
    }
    return count;
  }
  NodeId node_of(GroupId group, BlockId block) const {
    return of_block_[group][static_cast<size_t>(block)].node;
  }
  bool in_all_groups(NodeId node) const {
    for (GroupId group = 0; group < groups_; ++group) {
      if (block_of(node, group) == kNoBlock) return false;
    }
    return true;
  }

  NodeId parent(NodeId node) const { return nodes_[node].parent; }
  std::span<const TokenId> tokens(NodeId node) const {
    return {tokens_.data() + size_t{node} * block_tokens_, nodes_[node].tokens};
  }
  size_t nodes() const { return nodes_.size() - free_.size(); }
  uint64_t collisions() const { return collisions_; }

  // Every node is held as often as its children, blocks and `outside` (by node) say.
  Status check(std::vector<uint32_t> outside) const {
    outside.resize(nodes_.size(), 0);
    for (size_t g = 0; g < groups_; ++g) {
      for (const Entry& entry : of_block_[g]) {
        if (entry.node != kNoNode) ++outside[entry.node];
      }
    }
    std::vector<uint8_t> idle(nodes_.size(), 0);
    for (NodeId node : free_) idle[node] = 1;
    for (NodeId node = 0; node < nodes_.size(); ++node) {
      if (idle[node] == 0 && nodes_[node].parent != kNoNode) ++outside[nodes_[node].parent];
    }
    for (NodeId node = 0; node < nodes_.size(); ++node) {
      if (idle[node] != 0) continue;
      if (nodes_[node].holders == outside[node] && outside[node] > 0) continue;
      return Status::error(StatusCode::internal,
                           "prefix node " + std::to_string(node) + " counts " +
                               std::to_string(nodes_[node].holders) + " holders and has " +
                               std::to_string(outside[node]));
    }
    return {};
  }

 private:
  struct Node {
    uint64_t hash = 0;
    NodeId parent = kNoNode;
    NodeId next = kNoNode;  // in its bucket
    uint32_t holders = 0;
    uint32_t promises = 0;
    uint32_t tokens = 0;
  };
  struct Entry {
    NodeId node = kNoNode;
    BlockId next = kNoBlock;  // another block of the node
  };
  static constexpr uint64_t kSeed = 0x243f6a8885a308d3u;

  // The finaliser of splitmix64 over a running state.
  static uint64_t mix(uint64_t state, uint64_t word) {
    uint64_t x = (state ^ word) + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  uint64_t hash_of(uint64_t parent, std::span<const TokenId> tokens) const {
    uint64_t hash = mix(parent, tokens.size());
    size_t i = 0;
    for (; i + 1 < tokens.size(); i += 2) {
      const auto low = static_cast<uint32_t>(tokens[i]);
      hash = mix(hash, low | uint64_t{static_cast<uint32_t>(tokens[i + 1])} << 32);
    }
    if (i < tokens.size()) hash = mix(hash, static_cast<uint32_t>(tokens[i]));
    return hash & hash_mask_;
  }

  bool is(NodeId node, NodeId parent, uint64_t hash, std::span<const TokenId> with) const {
    const Node& one = nodes_[node];
    return one.hash == hash && one.parent == parent &&
           std::equal(with.begin(), with.end(), tokens(node).begin(), tokens(node).end());
  }
  BlockId& first_block(NodeId node, GroupId group) { return first_block_[node * groups_ + group]; }
  size_t place(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  NodeId bucket(uint64_t hash) const { return buckets_[place(hash)]; }

  NodeId make(NodeId parent, uint64_t hash, std::span<const TokenId> with) {
    if (free_.empty()) grow();
    const NodeId node = free_.back();
    free_.pop_back();
    nodes_[node] = {hash, parent, bucket(hash), 0, 0, static_cast<uint32_t>(with.size())};
    buckets_[place(hash)] = node;
    std::copy(with.begin(), with.end(), tokens_.begin() + size_t{node} * block_tokens_);
    return node;
  }
  void grow() {
    const auto node = static_cast<NodeId>(nodes_.size());
    tokens_.resize((size_t{node} + 1) * block_tokens_);
    first_block_.resize((size_t{node} + 1) * groups_, kNoBlock);
    free_.reserve(nodes_.capacity());
    nodes_.emplace_back();
    free_.push_back(node);
    if (nodes_.size() <= buckets_.size()) return;
    buckets_.assign(buckets_.size() * 2, kNoNode);
    for (NodeId old = 0; old < node; ++old) {
      nodes_[old].next = bucket(nodes_[old].hash);
      buckets_[place(nodes_[old].hash)] = old;
    }
  }
  void unlink(NodeId node) {
    NodeId* link = &buckets_[place(nodes_[node].hash)];
    while (*link != node) link = &nodes_[*link].next;
    *link = nodes_[node].next;
    if (nodes_[node].parent == kNoNode) keys_.erase(node);
    free_.push_back(node);
  }

  uint32_t block_tokens_ = 1;
  uint64_t hash_mask_ = ~uint64_t{0};
  size_t groups_ = 0;
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;       // [nodes, block_tokens]
  std::vector<BlockId> first_block_;  // [nodes, groups]
  std::vector<NodeId> free_;
  std::vector<NodeId> buckets_;
  std::vector<std::vector<Entry>> of_block_;                // [groups][blocks]
  std::unordered_map<NodeId, std::vector<uint64_t>> keys_;  // of roots
  uint64_t collisions_ = 0;
};

}  // namespace tenon::sdk
