// The contents of cached blocks, as a tree. A node is a block's worth of tokens after its
// parent's, a root is the key under which sequences may share; so a node names a whole prefix, and
// two prefixes are the same exactly when their nodes are.
//
//   key ── "The cat sat" ── " on the mat" ── …
//                       └── " on the rug"          each node: tokens, and the blocks that hold them
//
// Nodes are found by hash (of the parent's hash and the tokens) and confirmed by comparing parent
// and tokens, so a collision costs time and nothing else. A node lives while it has children,
// blocks, or sequences whose tokens it names.
//
// A group may be one of states: its "block" is then a slot with the state after the whole prefix.
#pragma once

#include <tenon/kv_cache.h>

#include <algorithm>
#include <cstdint>
#include <span>
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
             uint32_t hash_bits);

  // The root of a key; held for the caller, who lets go of it.
  NodeId hold_root(const CacheKey& key);

  // The node of `tokens` (1 … block_tokens) after `parent`, made where there is none. Not held:
  // whoever keeps it holds it before anything else is called.
  NodeId intern(NodeId parent, std::span<const TokenId> tokens);

  void hold(NodeId node) { ++nodes_[node].holders; }
  void let_go(NodeId node);

  // Another sequence may wait for what is being computed: calls are counted.
  void promise(NodeId node) { ++nodes_[node].promises; }
  void take_promise_back(NodeId node) { --nodes_[node].promises; }
  bool promised(NodeId node) const { return nodes_[node].promises > 0; }
  // The same of the state after the node's tokens, which may come without their blocks.
  void promise_state(NodeId node) { ++nodes_[node].state_promises; }
  void take_state_promise_back(NodeId node) { --nodes_[node].state_promises; }
  bool state_promised(NodeId node) const { return nodes_[node].state_promises > 0; }

  // Children, blocks and whoever else holds it.
  uint32_t holders(NodeId node) const { return nodes_[node].holders; }

  // A block of a group now holds the node's tokens; several may.
  void attach(GroupId group, BlockId block, NodeId node);
  // It no longer does. Returns the node, which may be gone.
  NodeId detach(GroupId group, BlockId block);
  // A block that holds the node's tokens, or kNoBlock.
  BlockId block_of(NodeId node, GroupId group) const {
    return first_block_[node * groups_ + group];
  }
  uint32_t blocks_of(NodeId node, GroupId group) const;
  NodeId node_of(GroupId group, BlockId block) const {
    return of_block_[group][static_cast<size_t>(block)].node;
  }
  // Whether it has a block in each of these groups.
  template <typename Groups>
  bool in_all(const Groups& groups, NodeId node) const {
    return std::all_of(groups.begin(), groups.end(),
                       [&](const auto& group) { return block_of(node, group.id()) != kNoBlock; });
  }

  NodeId parent(NodeId node) const { return nodes_[node].parent; }
  // Names the prefix that ends with the node, in every process. With fewer `hash_bits` than 64 two
  // prefixes may have one name.
  uint64_t content(NodeId node) const { return nodes_[node].hash; }
  // {salt, adapter, content …} of a root.
  std::span<const uint64_t> key(NodeId root) const { return keys_.at(root); }
  std::span<const TokenId> tokens(NodeId node) const {
    return {tokens_.data() + size_t{node} * block_tokens_, nodes_[node].tokens};
  }
  size_t nodes() const { return nodes_.size() - free_.size(); }
  uint64_t collisions() const { return collisions_; }

  // Every node is held as often as its children, blocks and `outside` (by node) say.
  Status check(std::vector<uint32_t> outside) const;

 private:
  struct Node {
    uint64_t hash = 0;
    NodeId parent = kNoNode;
    NodeId next = kNoNode;  // in its bucket
    uint32_t holders = 0;
    uint32_t promises = 0;
    uint32_t state_promises = 0;
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
  uint64_t hash_of(uint64_t parent, std::span<const TokenId> tokens) const;

  bool is(NodeId node, NodeId parent, uint64_t hash, std::span<const TokenId> with) const;
  BlockId& first_block(NodeId node, GroupId group) { return first_block_[node * groups_ + group]; }
  size_t place(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  NodeId bucket(uint64_t hash) const { return buckets_[place(hash)]; }

  NodeId make(NodeId parent, uint64_t hash, std::span<const TokenId> with);
  void grow();
  void unlink(NodeId node);

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
