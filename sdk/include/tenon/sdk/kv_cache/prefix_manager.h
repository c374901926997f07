// A BlockManager that keeps what full blocks hold and lets later sequences share them.
//
// Each sequence carries its chain: the nodes of its known tokens' full blocks, made once and
// extended as tokens come, so asking again costs no hashing. A block enters the index when its
// step is resolved; until then its node is promised, and whoever waits for the same tokens is told.
//
// Of recurrent groups a node can have the state after its prefix. A sequence goes on after a
// prefix only where the state is, so such a state is worth keeping in two kinds of places (after
// Pan et al., "Marconi: Prefix Caching for the Era of Hybrid LLMs", MLSys 2025): at the last block
// end of a prompt and of an answer, and at the last one up to which the index knows a new prompt
// already, because there it parts from others. While a prompt or an answer goes on, its latest
// state takes the place of the one before.
#pragma once

#include <tenon/sdk/kv_cache/block_manager.h>
#include <tenon/sdk/kv_cache/event_log.h>
#include <tenon/sdk/kv_cache/prefix_hits.h>
#include <tenon/sdk/kv_cache/prefix_index.h>

#include <vector>

namespace tenon::sdk {

class PrefixManager : public BlockManager {
 public:
  PrefixManager(std::string_view id, const HostServices& host, const PipelineFacts& facts,
                EvictionOrder order, uint32_t hash_bits = 64);

  // It tells of its blocks of tokens that are full, unless a shortened hash makes names ambiguous.
  const void* extension(std::string_view id) const {
    if (id == kKvEvents && hash_bits_ >= 64) return &events_;
    return BlockManager::extension(id);
  }

 protected:
  struct Chain {
    NodeId root = kNoNode;       // held
    std::vector<NodeId> nodes;   // of full blocks; the last one is held
    uint32_t known_blocks = 0;   // leading table entries that the index knows, or that are gone
    uint32_t promised_from = 0;  // entries whose nodes are promised by this sequence
    uint32_t promised_to = 0;
    std::vector<uint32_t> promised_states;  // entries after which it promises states
    uint32_t awaited_from = 0;  // positions that others had promised when it was asked about
    uint32_t awaited_to = 0;
    uint32_t prompt_tokens = 0;  // being computed; 0 once they are
    uint32_t latest_state = 0;   // leading entries that its latest state follows; 0 = it stays
    uint64_t number = 0;         // of all sequences ever begun

    NodeId at(uint32_t index) const { return index == 0 ? root : nodes[index - 1]; }
  };

  // Hooks of a finer index.
  virtual void attached(NodeId) {}            // it has a block now in a group, maybe its first
  virtual void detaching(NodeId, GroupId) {}  // a block of it is about to go
  virtual void refine(BlockSequence&, std::span<const TokenId>, Found&) {}

  PrefixIndex& index() { return index_; }
  const PrefixIndex& index() const { return index_; }
  Chain& chain(const BlockSequence& sequence) { return chains_[sequence.slot]; }
  uint32_t block_tokens() const { return block_tokens_; }

  // From now on the block is found as `node`, and no longer as what it held before. Of a group that
  // holds tokens, or states.
  template <typename Group>
  void keep(Group& group, BlockId block, NodeId node, const Chain& owner, uint32_t depth) {
    const NodeId before = index_.node_of(group.id(), block);
    if (before == node) return;
    if (before != kNoNode) forget(group.id(), block);
    index_.attach(group.id(), block, node);
    group.pool.keep(block, owner.number, depth);
    if (log_.watched()) tell_stored(group.id(), node, owner);
    attached(node);
  }

  Status bound() override;

  void begun(BlockSequence& sequence, const KvSequence& how, const BlockSequence* parent) override;
  void ended(BlockSequence& sequence) override;

  // The longest whole prefix whose blocks are all there, where a window needs only its last ones,
  // and whose state is.
  Found find_prefix(BlockSequence& sequence, std::span<const TokenId> tokens) override;
  BlockId found_block(const BlockSequence& sequence, GroupId group, uint32_t entry) override {
    return index_.block_of(chain(sequence).nodes[entry], group);
  }
  BlockId found_state(const BlockSequence& sequence, GroupId group, uint32_t tokens) override {
    return index_.block_of(chain(sequence).nodes[tokens / block_tokens_ - 1], group);
  }
  // Where sequences part from this one, and the last block end.
  OnTheWay worth_keeping(BlockSequence& sequence, std::span<const TokenId> tokens, uint32_t from,
                         uint32_t end) override;

  void grown(BlockSequence& sequence, std::span<const TokenId> tokens, uint32_t shared) override;
  void trimmed(BlockSequence& sequence) override;
  void passing_states(BlockSequence& sequence, std::span<const TokenId> tokens,
                      bool in_flight) override;
  void resolved(BlockSequence& sequence, std::span<const TokenId> tokens) override;
  void releasing(BlockSequence& sequence) override;
  void evicted(GroupId group, BlockId block) override;

  Status check_more() const override;

 private:
  Status measure_blocks();
  size_t usual_nodes() const;
  void forget(GroupId group, BlockId block);
  // Whether the node's blocks in the group are told of.
  bool is_told(GroupId group, NodeId node) const;
  void tell_stored(GroupId group, NodeId node, const Chain& owner);
  void extend(Chain& mine, std::span<const TokenId> tokens);
  // Whether blocks of the node's tokens are there, or being computed.
  bool comes(NodeId node) const { return index_.promised(node) || index_.in_all(groups(), node); }
  // Whether a sequence can start after it, as far as states are concerned.
  bool has_state(NodeId node) const { return index_.in_all(states(), node); }
  bool state_comes(NodeId node) const { return index_.state_promised(node) || has_state(node); }
  bool parts_here(NodeId node) const;
  void keep_state(BlockSequence& sequence, size_t slot, Chain& mine);
  void drop_latest_state(Chain& mine);
  // Only promises of entries in [from, to) stay.
  void keep_promises(Chain& mine, uint32_t from, uint32_t to);
  void take_state_promises_back(Chain& mine);
  void promise_states(const BlockSequence& sequence, Chain& mine);

  uint32_t hash_bits_;
  uint32_t node_tokens_;       // where no group has blocks of tokens
  uint32_t block_tokens_ = 1;  // of all groups that have, and of nodes
  PrefixIndex index_;
  std::vector<Chain> chains_;  // [slots]
  uint64_t begun_ = 0;
  PrefixHits hits_;
  KvEventLog log_;
  const KvEvents events_;
};

}  // namespace tenon::sdk
