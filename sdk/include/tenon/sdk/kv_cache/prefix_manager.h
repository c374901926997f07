// A BlockManager that keeps what full blocks hold and lets later sequences share them.
//
// Each sequence carries its chain: the nodes of its known tokens' full blocks, made once and
// extended as tokens come, so asking again costs no hashing. A block enters the index when its
// step is resolved; until then its node is promised, and whoever waits for the same tokens is told.
#pragma once

#include <tenon/sdk/kv_cache/block_manager.h>
#include <tenon/sdk/kv_cache/prefix_hits.h>
#include <tenon/sdk/kv_cache/prefix_index.h>

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
  void keep(GroupId group, BlockId block, NodeId node, const Chain& owner, uint32_t depth);

  Status bound() override;
  bool holds_states() const override { return false; }

  void begun(BlockSequence& sequence, const KvSequence& how, const BlockSequence* parent) override;
  void ended(BlockSequence& sequence) override;

  // The longest whole prefix whose blocks are all there, where a window needs only its last ones.
  Found find_prefix(BlockSequence& sequence, std::span<const TokenId> tokens) override;
  BlockId found_block(const BlockSequence& sequence, GroupId group, uint32_t entry) override {
    return index_.block_of(chain(sequence).nodes[entry], group);
  }

  void grown(BlockSequence& sequence, std::span<const TokenId> tokens, uint32_t shared) override;
  void trimmed(BlockSequence& sequence) override;
  void resolved(BlockSequence& sequence, std::span<const TokenId> tokens) override;
  void releasing(BlockSequence& sequence) override;
  void evicted(GroupId group, BlockId block) override;

  Status check_more() const override;

 private:
  void forget(GroupId group, BlockId block);
  void extend(Chain& mine, std::span<const TokenId> tokens);
  // Only promises of entries in [from, to) stay.
  void keep_promises(Chain& mine, uint32_t from, uint32_t to);

  uint32_t hash_bits_;
  PrefixIndex index_;
  std::vector<Chain> chains_;  // [slots]
  uint64_t begun_ = 0;
  PrefixHits hits_;
};

}  // namespace tenon::sdk
