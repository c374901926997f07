// A BlockManager that keeps what full blocks hold and lets later sequences share them.
//
// Each sequence carries its chain: the nodes of its known tokens' full blocks, made once and
// extended as tokens come, so asking again costs no hashing. A block enters the index when its
// step is resolved; until then its node is promised, and whoever waits for the same tokens is told.
#pragma once

#include <tenon/sdk/kv_cache/block_manager.h>
#include <tenon/sdk/kv_cache/prefix_hits.h>
#include <tenon/sdk/kv_cache/prefix_index.h>

#include <algorithm>
#include <vector>

namespace tenon::sdk {

class PrefixManager : public BlockManager {
 public:
  PrefixManager(std::string_view id, const HostServices& host, EvictionOrder order,
                uint32_t hash_bits = 64)
      : BlockManager(id, host, order), hash_bits_(hash_bits) {}

 protected:
  struct Chain {
    NodeId root = kNoNode;       // held
    std::vector<NodeId> nodes;   // of full blocks; the last one is held
    uint32_t known_blocks = 0;   // leading table entries that the index knows, or that are gone
    uint32_t promised_from = 0;  // entries whose nodes are promised by this sequence
    uint32_t promised_to = 0;
    uint32_t awaited_from = 0;  // positions that others had promised when it was asked about
    uint32_t awaited_to = 0;
    uint64_t number = 0;  // of all sequences ever begun

    NodeId at(uint32_t index) const { return index == 0 ? root : nodes[index - 1]; }
  };

  // Hooks of a finer index.
  virtual void attached(NodeId) {}            // it has a block now in a group, maybe its first
  virtual void detaching(NodeId, GroupId) {}  // a block of it is about to go
  virtual void refine(BlockSequence&, std::span<const TokenId>, Found&) {}

  PrefixIndex& index() { return index_; }
  const PrefixIndex& index() const { return index_; }
  Chain& chain(const BlockSequence& sequence) { return chains_[sequence.slot]; }
  uint32_t block_tokens() const { return groups().front().block_tokens(); }

  // From now on the block is found as `node`, and no longer as what it held before.
  void keep(GroupId group, BlockId block, NodeId node, const Chain& owner, uint32_t depth) {
    const NodeId before = index_.node_of(group, block);
    if (before == node) return;
    if (before != kNoNode) forget(group, block);
    index_.attach(group, block, node);
    groups()[group].pool.keep(block, owner.number, depth);
    attached(node);
  }

  Status bound() override {
    std::vector<uint32_t> blocks;
    uint32_t most = 0;
    for (const BlockGroup& group : groups()) {
      if (group.block_tokens() != block_tokens()) {
        return wrong("KV groups have blocks of " + std::to_string(block_tokens()) + " and of " +
                     std::to_string(group.block_tokens()) + " tokens – kv_cache '" + id() +
                     "' needs one size");
      }
      blocks.push_back(group.pool.size());
      most = std::max(most, group.pool.size());
    }
    index_.reset(blocks, block_tokens(), size_t{2} * most + 256, hash_bits_);
    chains_.clear();
    return {};
  }

  void begun(BlockSequence& sequence, const KvSequence& how, const BlockSequence* parent) override {
    if (chains_.size() <= sequence.slot) chains_.resize(sequence.slot + 1);
    Chain& made = chain(sequence);
    made.nodes.clear();
    made.nodes.reserve(sequence.limit / block_tokens());
    made.root = index_.hold_root(how.key);
    made.known_blocks = made.promised_from = made.promised_to = 0;
    made.awaited_from = made.awaited_to = 0;
    made.number = ++begun_;
    if (parent == nullptr) return;
    const Chain& from = chain(*parent);
    if (from.root != made.root) return;  // another key: nothing of the parent's is looked up
    const size_t full = how.parent_tokens / block_tokens();
    made.nodes.assign(from.nodes.begin(), from.nodes.begin() + std::min(full, from.nodes.size()));
    if (!made.nodes.empty()) index_.hold(made.nodes.back());
    made.known_blocks = std::min<uint32_t>(from.known_blocks, made.nodes.size());
  }
  void ended(BlockSequence& sequence) override {
    Chain& one = chain(sequence);
    if (!one.nodes.empty()) index_.let_go(one.nodes.back());
    index_.let_go(one.root);
    one.nodes.clear();
    one.root = kNoNode;
  }

  // The longest whole prefix whose blocks are all there, where a window needs only its last ones.
  Found find_prefix(BlockSequence& sequence, std::span<const TokenId> tokens) override {
    Found found;
    if (tokens.empty()) return found;
    Chain& mine = chain(sequence);
    extend(mine, tokens);
    // The last token is left to compute.
    const auto most = static_cast<uint32_t>((tokens.size() - 1) / block_tokens());
    const uint32_t ready = hits_.longest(most, groups(), [&](GroupId group, uint32_t entry) {
      return index_.block_of(mine.nodes[entry], group) != kNoBlock;
    });
    found.tokens = ready * block_tokens();
    uint32_t end = ready;
    while (end < most &&
           (index_.promised(mine.nodes[end]) || index_.in_all_groups(mine.nodes[end])))
      ++end;
    found.promised_end = end * block_tokens();
    if (end > ready && mine.awaited_to == 0) mine.awaited_from = found.tokens;
    if (end > ready) mine.awaited_to = std::max(mine.awaited_to, found.promised_end);
    refine(sequence, tokens, found);
    return found;
  }
  BlockId found_block(const BlockSequence& sequence, GroupId group, uint32_t entry) override {
    return index_.block_of(chain(sequence).nodes[entry], group);
  }

  void grown(BlockSequence& sequence, std::span<const TokenId> tokens, uint32_t shared) override {
    Chain& mine = chain(sequence);
    const uint32_t size = block_tokens();
    if (shared > 0) {
      mine.known_blocks = shared;
      const uint32_t end = std::min(sequence.computed, mine.awaited_to);
      if (end > mine.awaited_from) counters().promised_tokens += end - mine.awaited_from;
    }
    mine.awaited_from = mine.awaited_to = 0;
    const auto full =
        static_cast<uint32_t>(std::min<size_t>(sequence.granted, tokens.size()) / size);
    uint32_t from = std::max(sequence.computed / size, mine.promised_to);
    if (from >= full) return;
    extend(mine, tokens);
    if (mine.promised_to == 0) mine.promised_from = from;
    for (; from < full; ++from) index_.promise(mine.nodes[from]);
    mine.promised_to = full;
  }
  void resolved(BlockSequence& sequence, std::span<const TokenId> tokens) override {
    Chain& mine = chain(sequence);
    take_promises_back(mine);
    const uint32_t full = sequence.computed / block_tokens();
    if (full <= mine.known_blocks || tokens.size() < sequence.computed) return;
    extend(mine, tokens);
    for (BlockGroup& group : groups()) {
      const BlockTable& table = sequence.tables[group.id()];
      for (uint32_t i = std::max(mine.known_blocks, table.left_behind); i < full; ++i) {
        keep(group.id(), table.blocks[i], mine.nodes[i], mine, i);
      }
    }
    mine.known_blocks = full;
  }
  void releasing(BlockSequence& sequence) override {
    take_promises_back(chain(sequence));
    chain(sequence).known_blocks = 0;
  }
  void evicted(GroupId group, BlockId block) override {
    if (index_.node_of(group, block) != kNoNode) forget(group, block);
  }

  Status check_more() const override {
    std::vector<uint32_t> holders;
    const auto hold = [&holders](NodeId node) {
      if (holders.size() <= node) holders.resize(node + 1, 0);
      ++holders[node];
    };
    Status status;
    each_sequence([&](const BlockSequence& sequence) {
      const Chain& one = chains_[sequence.slot];
      hold(one.root);
      if (!one.nodes.empty()) hold(one.nodes.back());
    });
    for (const BlockGroup& group : groups()) {
      for (uint32_t i = 0; i < group.pool.size(); ++i) {
        const auto block = static_cast<BlockId>(i);
        if (group.pool.kept(block) == (index_.node_of(group.id(), block) != kNoNode)) continue;
        return broken("block " + std::to_string(i) + " is kept and not indexed, or the reverse");
      }
    }
    return index_.check(std::move(holders));
  }

 private:
  void forget(GroupId group, BlockId block) {
    detaching(index_.node_of(group, block), group);
    index_.detach(group, block);
  }
  void extend(Chain& mine, std::span<const TokenId> tokens) {
    const size_t size = block_tokens();
    while (mine.nodes.size() < tokens.size() / size) {
      const size_t next = mine.nodes.size();
      const NodeId last = mine.at(static_cast<uint32_t>(next));
      const NodeId node = index_.intern(last, tokens.subspan(next * size, size));
      index_.hold(node);
      mine.nodes.push_back(node);
      if (next > 0) index_.let_go(last);
    }
  }
  void take_promises_back(Chain& mine) {
    for (uint32_t i = mine.promised_from; i < mine.promised_to; ++i) {
      index_.take_promise_back(mine.nodes[i]);
    }
    mine.promised_from = mine.promised_to = 0;
  }

  uint32_t hash_bits_;
  PrefixIndex index_;
  std::vector<Chain> chains_;  // [slots]
  uint64_t begun_ = 0;
  PrefixHits hits_;
};

}  // namespace tenon::sdk
