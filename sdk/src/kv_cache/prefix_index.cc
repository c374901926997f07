#include <tenon/sdk/kv_cache/prefix_index.h>

#include <algorithm>
#include <string>
#include <utility>

namespace tenon::sdk {

void PrefixIndex::reset(std::span<const uint32_t> blocks, uint32_t block_tokens, size_t nodes,
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

NodeId PrefixIndex::hold_root(const CacheKey& key) {
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

NodeId PrefixIndex::intern(NodeId parent, std::span<const TokenId> tokens) {
  const uint64_t hash = hash_of(nodes_[parent].hash, tokens);
  for (NodeId node = bucket(hash); node != kNoNode; node = nodes_[node].next) {
    if (is(node, parent, hash, tokens)) return node;
    collisions_ += nodes_[node].hash == hash;
  }
  ++nodes_[parent].holders;
  return make(parent, hash, tokens);
}

void PrefixIndex::let_go(NodeId node) {
  while (node != kNoNode && --nodes_[node].holders == 0) {
    const NodeId parent = nodes_[node].parent;
    unlink(node);
    node = parent;
  }
}

void PrefixIndex::attach(GroupId group, BlockId block, NodeId node) {
  Entry& entry = of_block_[group][static_cast<size_t>(block)];
  BlockId& first = first_block(node, group);
  entry = {node, first};
  first = block;
  hold(node);
}

NodeId PrefixIndex::detach(GroupId group, BlockId block) {
  Entry& entry = of_block_[group][static_cast<size_t>(block)];
  const NodeId node = entry.node;
  BlockId* link = &first_block(node, group);
  while (*link != block) link = &of_block_[group][static_cast<size_t>(*link)].next;
  *link = entry.next;
  entry = {};
  let_go(node);
  return node;
}

uint32_t PrefixIndex::blocks_of(NodeId node, GroupId group) const {
  uint32_t count = 0;
  for (BlockId block = block_of(node, group); block != kNoBlock; ++count) {
    block = of_block_[group][static_cast<size_t>(block)].next;
  }
  return count;
}

Status PrefixIndex::check(std::vector<uint32_t> outside) const {
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
    return Status::error(StatusCode::internal, "prefix node " + std::to_string(node) + " counts " +
                                                   std::to_string(nodes_[node].holders) +
                                                   " holders and has " +
                                                   std::to_string(outside[node]));
  }
  return {};
}

uint64_t PrefixIndex::hash_of(uint64_t parent, std::span<const TokenId> tokens) const {
  uint64_t hash = mix(parent, tokens.size());
  size_t i = 0;
  for (; i + 1 < tokens.size(); i += 2) {
    const auto low = static_cast<uint32_t>(tokens[i]);
    hash = mix(hash, low | uint64_t{static_cast<uint32_t>(tokens[i + 1])} << 32);
  }
  if (i < tokens.size()) hash = mix(hash, static_cast<uint32_t>(tokens[i]));
  return hash & hash_mask_;
}

bool PrefixIndex::is(NodeId node, NodeId parent, uint64_t hash,
                     std::span<const TokenId> with) const {
  const Node& one = nodes_[node];
  return one.hash == hash && one.parent == parent &&
         std::equal(with.begin(), with.end(), tokens(node).begin(), tokens(node).end());
}

NodeId PrefixIndex::make(NodeId parent, uint64_t hash, std::span<const TokenId> with) {
  if (free_.empty()) grow();
  const NodeId node = free_.back();
  free_.pop_back();
  nodes_[node] = {hash, parent, bucket(hash), 0, 0, 0, static_cast<uint32_t>(with.size())};
  buckets_[place(hash)] = node;
  std::copy(with.begin(), with.end(), tokens_.begin() + size_t{node} * block_tokens_);
  return node;
}

void PrefixIndex::grow() {
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

void PrefixIndex::unlink(NodeId node) {
  NodeId* link = &buckets_[place(nodes_[node].hash)];
  while (*link != node) link = &nodes_[*link].next;
  *link = nodes_[node].next;
  if (nodes_[node].parent == kNoNode) keys_.erase(node);
  free_.push_back(node);
}

}  // namespace tenon::sdk
