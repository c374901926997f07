// A tree over tokens: what any earlier sequence has in common with a new one is reused, to the
// token. Whole blocks are shared; of the block in which they part, the common tokens are copied.
//
// After RadixAttention (Zheng et al., "SGLang: Efficient Execution of Structured Language Model
// Programs", 2024). A tree edge there is a run of tokens that splits where sequences part; here it
// is a block and never splits, siblings may begin alike, and what they share is found by their
// order. Leaves go first, the one not used for longest: whoever holds a block holds all before it
// and gives the last one back first, so the order of giving back is that order.
//
// Whole blocks are found by <tenon/sdk/kv_cache/prefix_manager.h>; this file adds the tokens after
// them. Where layers keep recurrent state there are none to add: a sequence goes on after a state
// only, and states are kept at block ends.
#include <tenon/sdk/kv_cache/facts.h>
#include <tenon/sdk/kv_cache/prefix_manager.h>
#include <tenon/sdk/plugin.h>

#include <memory>
#include <memory_resource>
#include <set>

namespace tenon {
namespace {

using sdk::BlockSequence;
using sdk::BlockTable;
using sdk::NodeId;

// Tokens after a node.
struct Branch {
  NodeId parent = sdk::kNoNode;
  std::span<const TokenId> tokens;
};

uint32_t common(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t most = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<ptrdiff_t>(most);
  return static_cast<uint32_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

// The nodes that have blocks, in the order of parent and tokens, so that those with the most
// tokens in common are neighbours.
class Branches {
 public:
  Branches(const sdk::PrefixIndex& index, const std::vector<sdk::BlockGroup>& groups, size_t nodes)
      : index_(index),
        groups_(groups),
        memory_(nodes * kNodeBytes),
        upstream_(memory_.data(), memory_.size()),
        pool_({.max_blocks_per_chunk = 1024, .largest_required_pool_block = kNodeBytes},
              &upstream_),
        nodes_(Order{&index}, &pool_) {}

  void insert(NodeId node) { nodes_.insert(node); }
  void erase(NodeId node) { nodes_.erase(node); }

  struct Nearest {
    NodeId node = sdk::kNoNode;
    uint32_t tokens = 0;  // in common
  };
  // Among the children of a node, the one that begins most like `branch`.
  Nearest nearest(const Branch& branch) const {
    Nearest best;
    const auto behind = nodes_.lower_bound(branch);
    // False when no node further on in this direction can have more in common.
    const auto consider = [&](NodeId node) {
      if (index_.parent(node) != branch.parent) return false;
      const uint32_t tokens = common(index_.tokens(node), branch.tokens);
      if (tokens <= best.tokens) return false;
      if (!index_.in_all(groups_, node)) return true;
      best = {node, tokens};
      return false;
    };
    for (auto next = behind; next != nodes_.end() && consider(*next);) ++next;
    for (auto last = behind; last != nodes_.begin() && consider(*--last);) continue;
    return best;
  }

 private:
  // A tree node of the set with room to spare: reserved, so that steps do not allocate.
  static constexpr size_t kNodeBytes = 64;

  struct Order {
    using is_transparent = void;
    const sdk::PrefixIndex* index;
    Branch branch(NodeId node) const { return {index->parent(node), index->tokens(node)}; }
    static const Branch& branch(const Branch& branch) { return branch; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      const Branch x = branch(a), y = branch(b);
      if (x.parent != y.parent) return x.parent < y.parent;
      return std::lexicographical_compare(x.tokens.begin(), x.tokens.end(), y.tokens.begin(),
                                          y.tokens.end());
    }
  };

  const sdk::PrefixIndex& index_;
  const std::vector<sdk::BlockGroup>& groups_;
  std::vector<std::byte> memory_;
  std::pmr::monotonic_buffer_resource upstream_;
  std::pmr::unsynchronized_pool_resource pool_;
  std::pmr::set<NodeId, Order> nodes_;
};

class RadixManager final : public sdk::PrefixManager {
 public:
  RadixManager(const HostServices& host, const PipelineFacts& facts, const sdk::NoOptions&)
      : PrefixManager("radix", host, facts, sdk::EvictionOrder::lru) {}

 protected:
  Status bound() override {
    branches_.reset();
    if (Status status = PrefixManager::bound(); !status.ok()) return status;
    tails_.clear();
    if (!states().empty()) return {};
    const size_t nodes = size_t{2} * groups().front().pool.size() + 64;
    branches_ = std::make_unique<Branches>(index(), groups(), nodes);
    return {};
  }
  void begun(BlockSequence& sequence, const KvSequence& how, const BlockSequence* parent) override {
    PrefixManager::begun(sequence, how, parent);
    if (tails_.size() <= sequence.slot) tails_.resize(sequence.slot + 1);
    Tail& tail = tails_[sequence.slot];
    tail.tokens.clear();
    tail.tokens.reserve(block_tokens());
    tail.computed = how.parent == kNoSeq ? 0 : how.parent_tokens;
  }

  // After the whole blocks: the longest beginning of the next one that any child holds.
  void refine(BlockSequence& sequence, std::span<const TokenId> tokens, Found& found) override {
    Tail& tail = tails_[sequence.slot];
    tail.source = sdk::kNoNode;
    if (branches_ == nullptr) return;
    const size_t left = tokens.size() - 1 - found.tokens;
    if (left == 0) return;
    const auto entry = found.tokens / block_tokens();
    const auto wanted = tokens.subspan(found.tokens, std::min<size_t>(left, block_tokens()));
    const auto nearest = branches_->nearest({chain(sequence).at(entry), wanted});
    tail.source = nearest.node;
    tail.source_entry = entry;
    found.partial = nearest.tokens;
  }
  BlockId found_block(const BlockSequence& sequence, GroupId group, uint32_t entry) override {
    const Tail& tail = tails_[sequence.slot];
    if (tail.source != sdk::kNoNode && entry == tail.source_entry) {
      return index().block_of(tail.source, group);
    }
    return PrefixManager::found_block(sequence, group, entry);
  }

  void attached(NodeId node) override {
    if (branches_ != nullptr) branches_->insert(node);
  }
  void detaching(NodeId node, GroupId group) override {
    if (branches_ == nullptr || index().blocks_of(node, group) > 1) return;
    for (const sdk::BlockGroup& other : groups()) {
      if (other.id() != group && index().block_of(node, other.id()) != kNoBlock) return;
    }
    branches_->erase(node);
  }

  void resolved(BlockSequence& sequence, std::span<const TokenId> tokens) override {
    PrefixManager::resolved(sequence, tokens);
    Tail& tail = tails_[sequence.slot];
    const bool several = sequence.computed > tail.computed + 1;
    tail.tokens.clear();
    if (tokens.size() < sequence.computed) return;
    const uint32_t inside = sequence.computed % block_tokens();
    const auto last = tokens.first(sequence.computed).last(inside);
    tail.tokens.assign(last.begin(), last.end());
    tail.computed = sequence.computed;
    // The end of a prompt can be copied while its sequence writes on after it.
    if (several) keep_tail(sequence);
  }
  // What stands in a last block that is not full is worth keeping as well.
  void releasing(BlockSequence& sequence) override {
    keep_tail(sequence);
    tails_[sequence.slot].tokens.clear();
    tails_[sequence.slot].computed = 0;
    PrefixManager::releasing(sequence);
  }

 private:
  struct Tail {
    std::vector<TokenId> tokens;   // after the full blocks, as of the last resolve
    uint32_t computed = 0;         // then
    NodeId source = sdk::kNoNode;  // of which the beginning is to be copied
    uint32_t source_entry = 0;
  };

  void keep_tail(BlockSequence& sequence) {
    const Tail& tail = tails_[sequence.slot];
    if (branches_ == nullptr || tail.tokens.empty() || tail.computed != sequence.computed) return;
    const uint32_t entry = sequence.computed / block_tokens();
    for (const sdk::BlockGroup& group : groups()) {
      const BlockTable& table = sequence.tables[group.id()];
      if (entry < table.left_behind || group.pool.shared(table.blocks[entry])) return;
    }
    const NodeId parent = chain(sequence).at(entry);
    if (branches_->nearest({parent, tail.tokens}).tokens == tail.tokens.size()) return;
    const NodeId node = index().intern(parent, tail.tokens);
    for (sdk::BlockGroup& group : groups()) {
      const BlockTable& table = sequence.tables[group.id()];
      keep(group, table.blocks[entry], node, chain(sequence), entry);
    }
  }

  std::unique_ptr<Branches> branches_;  // null where layers keep recurrent state
  std::vector<Tail> tails_;             // [slots]
};

constexpr PluginDescriptor kRadix = sdk::with_facts(
    sdk::descriptor<KVCacheManager, RadixManager>(
        {.id = "radix",
         .version = "1.0.0",
         .summary = "paged, and whatever a prompt has in common with an earlier one is reused, to "
                    "the token",
         .license = "Apache-2.0"}),
    sdk::kPrefixManager.facts);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kRadix)
