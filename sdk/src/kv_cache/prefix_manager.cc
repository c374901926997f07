#include <tenon/sdk/kv_cache/prefix_manager.h>

#include <algorithm>
#include <string>
#include <utility>

namespace tenon::sdk {
namespace {

constexpr uint32_t kUsualBlockTokens = 16;
constexpr size_t kUsualStates = 8;  // that a sequence promises at a time
constexpr size_t kMostReservedNodes = size_t{1} << 16;

}  // namespace

PrefixManager::PrefixManager(std::string_view id, const HostServices& host,
                             const PipelineFacts& facts, EvictionOrder order, uint32_t hash_bits)
    : BlockManager(id, host, order),
      hash_bits_(hash_bits),
      node_tokens_(kUsualBlockTokens),
      events_{.self = this,
              .watch = [](void* self) noexcept -> Status {
                static_cast<PrefixManager*>(self)->log_.watch();
                return {};
              },
              .take = [](void* self, KvEventsOut& out) noexcept -> Status {
                static_cast<PrefixManager*>(self)->log_.take(out);
                return {};
              }} {
  const ResolvedFact* agreed = facts.find("kv.block_tokens");
  if (agreed != nullptr) node_tokens_ = static_cast<uint32_t>(std::max<int64_t>(agreed->number, 1));
}

Status PrefixManager::measure_blocks() {
  block_tokens_ = groups().empty() ? node_tokens_ : groups().front().block_tokens();
  for (const BlockGroup& group : groups()) {
    if (group.block_tokens() == block_tokens_) continue;
    return wrong("KV groups have blocks of " + std::to_string(block_tokens_) + " and of " +
                 std::to_string(group.block_tokens()) + " tokens – kv_cache '" + id() +
                 "' needs one size");
  }
  return {};
}

// Each state keeps the path of nodes to it, and there may be no blocks that keep it anyway.
size_t PrefixManager::usual_nodes() const {
  size_t nodes = 256;
  for (const BlockGroup& group : groups()) nodes = std::max<size_t>(nodes, group.pool.size());
  for (const StateGroup& group : states()) {
    const size_t paths = size_t{group.pool.size()} * (context_tokens() / block_tokens_);
    nodes = std::max(nodes, std::min(paths, kMostReservedNodes));
  }
  return 2 * nodes + 256;
}

Status PrefixManager::bound() {
  if (Status status = measure_blocks(); !status.ok()) return status;
  std::vector<uint32_t> blocks(groups().size() + states().size(), 0);
  for (const BlockGroup& group : groups()) blocks[group.id()] = group.pool.size();
  for (const StateGroup& group : states()) blocks[group.id()] = group.pool.size();
  index_.reset(blocks, block_tokens_, usual_nodes(), hash_bits_);
  chains_.clear();
  return {};
}

void PrefixManager::begun(BlockSequence& sequence, const KvSequence& how,
                          const BlockSequence* parent) {
  if (chains_.size() <= sequence.slot) chains_.resize(sequence.slot + 1);
  Chain& made = chain(sequence);
  made.nodes.clear();
  made.nodes.reserve(sequence.limit / block_tokens());
  made.root = index_.hold_root(how.key);
  made.known_blocks = made.promised_from = made.promised_to = 0;
  made.awaited_from = made.awaited_to = 0;
  made.promised_states.clear();
  made.promised_states.reserve(kUsualStates);
  made.prompt_tokens = made.latest_state = 0;
  made.number = ++begun_;
  if (parent == nullptr) return;
  const Chain& from = chain(*parent);
  if (from.root != made.root) return;  // another key: nothing of the parent's is looked up
  const size_t full = how.parent_tokens / block_tokens();
  made.nodes.assign(from.nodes.begin(), from.nodes.begin() + std::min(full, from.nodes.size()));
  if (!made.nodes.empty()) index_.hold(made.nodes.back());
  made.known_blocks = std::min<uint32_t>(from.known_blocks, made.nodes.size());
}

void PrefixManager::ended(BlockSequence& sequence) {
  Chain& one = chain(sequence);
  if (!one.nodes.empty()) index_.let_go(one.nodes.back());
  index_.let_go(one.root);
  one.nodes.clear();
  one.root = kNoNode;
}

PrefixManager::Found PrefixManager::find_prefix(BlockSequence& sequence,
                                                std::span<const TokenId> tokens) {
  Found found;
  if (tokens.empty()) return found;
  Chain& mine = chain(sequence);
  extend(mine, tokens);
  // The last token is left to compute.
  const auto most = static_cast<uint32_t>((tokens.size() - 1) / block_tokens());
  const uint32_t ready = hits_.longest(
      most, groups(),
      [&](GroupId group, uint32_t entry) {
        return index_.block_of(mine.nodes[entry], group) != kNoBlock;
      },
      [&](uint32_t entry) { return has_state(mine.nodes[entry]); });
  found.tokens = ready * block_tokens();
  uint32_t end = ready;
  for (uint32_t i = ready; i < most && comes(mine.nodes[i]); ++i) {
    if (state_comes(mine.nodes[i])) end = i + 1;
  }
  found.promised_end = end * block_tokens();
  if (end > ready && mine.awaited_to == 0) mine.awaited_from = found.tokens;
  if (end > ready) mine.awaited_to = std::max(mine.awaited_to, found.promised_end);
  refine(sequence, tokens, found);
  return found;
}

void PrefixManager::grown(BlockSequence& sequence, std::span<const TokenId> tokens,
                          uint32_t shared) {
  Chain& mine = chain(sequence);
  const uint32_t size = block_tokens();
  if (tokens.size() > size_t{sequence.planned_from} + 1) {
    mine.prompt_tokens = static_cast<uint32_t>(tokens.size());
  }
  if (shared > 0) {
    mine.known_blocks = shared / size;
    const uint32_t end = std::min(sequence.computed, mine.awaited_to);
    if (end > mine.awaited_from) counters().promised_tokens += end - mine.awaited_from;
  }
  mine.awaited_from = mine.awaited_to = 0;
  const auto full = static_cast<uint32_t>(std::min<size_t>(sequence.granted, tokens.size()) / size);
  uint32_t from = std::max(sequence.computed / size, mine.promised_to);
  if (from < full) extend(mine, tokens);
  promise_states(sequence, mine);
  if (from >= full) return;
  if (mine.promised_to == 0) mine.promised_from = from;
  for (; from < full; ++from) index_.promise(mine.nodes[from]);
  mine.promised_to = full;
}

void PrefixManager::trimmed(BlockSequence& sequence) {
  keep_promises(chain(sequence), 0, sequence.granted / block_tokens());
  promise_states(sequence, chain(sequence));
}

void PrefixManager::resolved(BlockSequence& sequence, std::span<const TokenId> tokens) {
  Chain& mine = chain(sequence);
  const uint32_t full = sequence.computed / block_tokens();
  keep_promises(mine, full, sequence.granted / block_tokens());
  promise_states(sequence, mine);
  if (full <= mine.known_blocks || tokens.size() < sequence.computed) return;
  extend(mine, tokens);
  for (BlockGroup& group : groups()) {
    const BlockTable& table = sequence.tables[group.id()];
    for (uint32_t i = std::max(mine.known_blocks, table.left_behind); i < full; ++i) {
      keep(group, table.blocks[i], mine.nodes[i], mine, i);
    }
  }
  mine.known_blocks = full;
}

void PrefixManager::releasing(BlockSequence& sequence) {
  Chain& mine = chain(sequence);
  keep_promises(mine, 0, 0);
  take_state_promises_back(mine);
  mine.known_blocks = mine.prompt_tokens = mine.latest_state = 0;
}

void PrefixManager::evicted(GroupId group, BlockId block) {
  if (index_.node_of(group, block) != kNoNode) forget(group, block);
}

Status PrefixManager::check_more() const {
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
  const auto hold_kept = [&](const auto& group) {
    for (uint32_t i = 0; i < group.pool.size(); ++i) {
      const auto block = static_cast<BlockId>(i);
      if (group.pool.kept(block) == (index_.node_of(group.id(), block) != kNoNode)) continue;
      status = broken("block " + std::to_string(i) + " is kept and not indexed, or the reverse");
    }
  };
  for (const BlockGroup& group : groups()) hold_kept(group);
  for (const StateGroup& group : states()) hold_kept(group);
  if (!status.ok()) return status;
  return index_.check(std::move(holders));
}

void PrefixManager::forget(GroupId group, BlockId block) {
  const NodeId node = index_.node_of(group, block);
  detaching(node, group);
  if (log_.watched() && is_told(group, node)) log_.removed(group, index_.content(node));
  index_.detach(group, block);
}

// Its only block there is coming, or going.
bool PrefixManager::is_told(GroupId group, NodeId node) const {
  const auto is_it = [group](const BlockGroup& each) { return each.id() == group; };
  return std::ranges::any_of(groups(), is_it) && index_.tokens(node).size() == block_tokens_ &&
         index_.blocks_of(node, group) == 1;
}

void PrefixManager::tell_stored(GroupId group, NodeId node, const Chain& owner) {
  if (!is_told(group, node)) return;
  const NodeId parent = index_.parent(node);
  const std::span<const uint64_t> key = index_.key(owner.root);
  log_.stored({.has_parent = parent != owner.root,
               .group = group,
               .content = index_.content(node),
               .parent = index_.content(parent),
               .salt = key[0],
               .adapter = key[1],
               .tokens = index_.tokens(node)});
}

void PrefixManager::extend(Chain& mine, std::span<const TokenId> tokens) {
  const size_t size = block_tokens();
  const uint64_t collisions = index_.collisions();
  while (mine.nodes.size() < tokens.size() / size) {
    const size_t next = mine.nodes.size();
    const NodeId last = mine.at(static_cast<uint32_t>(next));
    const NodeId node = index_.intern(last, tokens.subspan(next * size, size));
    index_.hold(node);
    mine.nodes.push_back(node);
    if (next > 0) index_.let_go(last);
  }
  counters().hash_collisions += index_.collisions() - collisions;
}

void PrefixManager::keep_promises(Chain& mine, uint32_t from, uint32_t to) {
  from = std::max(from, mine.promised_from);
  to = std::min(to, mine.promised_to);
  for (uint32_t i = mine.promised_from; i < mine.promised_to; ++i) {
    if (i < from || i >= to) index_.take_promise_back(mine.nodes[i]);
  }
  mine.promised_from = from < to ? from : 0;
  mine.promised_to = from < to ? to : 0;
}

}  // namespace tenon::sdk
