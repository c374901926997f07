// Blocks on demand: a sequence holds as many blocks as its tokens need, each wherever one was free.
//
// After PagedAttention (Kwon et al., SOSP 2023). Forks share blocks by reference; a shared block
// is copied before it is written. Where a group has a sliding window, blocks that have left it are
// given back while the sequence runs.
#include <tenon/kv_cache.h>
#include <tenon/sdk/kv_blocks.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon {
namespace {

Status wrong(const std::string& text) {
  return Status::error(StatusCode::invalid_argument, text);
}

struct Group {
  uint32_t block_tokens = 1;
  uint32_t window_tokens = 0;
  sdk::BlockPool pool;

  uint64_t blocks_for(uint64_t tokens) const { return (tokens + block_tokens - 1) / block_tokens; }
};

struct Table {
  std::vector<BlockId> blocks;
  uint32_t left_behind = 0;  // leading entries that a window has passed: kNoBlock
};

struct PagedSequence : sdk::KvProgress {
  std::vector<Table> tables;  // [groups]
};

class PagedManager final : public KVCacheManager {
 public:
  PagedManager(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}

  Status bind(const ModelShape& model, const KvGeometry& geometry) noexcept override {
    return sdk::guard([&] { return bind_groups(model, geometry); });
  }
  Status begin(const KvSequence& sequence) noexcept override {
    return sdk::guard([&] { return begin_sequence(sequence); });
  }
  Status match(SeqId seq, std::span<const TokenId> tokens, uint32_t wanted_tokens,
               KvMatch& out) noexcept override;
  Status grow(SeqId seq, std::span<const TokenId> tokens, uint32_t computed, uint32_t at_least,
              uint32_t at_most, KvGrant& out) noexcept override;
  Status resolve(SeqId seq, std::span<const TokenId> tokens, uint32_t base,
                 std::span<const uint32_t> kept, uint32_t computed) noexcept override;
  Status release(SeqId seq, Release how) noexcept override;
  Status table(SeqId seq, GroupId group, KvTableView& out) noexcept override;
  Status take_moves(KvMovesOut& out) noexcept override {
    moves_.take(out);
    return {};
  }
  void step_begin(uint64_t step_id) noexcept override { step_ = step_id; }
  void step_done(uint64_t step_id) noexcept override {
    for (Group& group : groups_) group.pool.step_done(step_id);
  }
  KvUsage usage() const noexcept override;
  Status check() const noexcept override {
    return sdk::guard([&] { return check_groups(); });
  }

 private:
  PagedSequence* find(SeqId seq) {
    const auto found = sequences_.find(seq);
    return found == sequences_.end() ? nullptr : &found->second;
  }
  static Status unknown(SeqId seq) { return wrong("no sequence " + std::to_string(seq)); }

  Status bind_groups(const ModelShape& model, const KvGeometry& geometry);
  Status begin_sequence(const KvSequence& sequence);
  bool tail_can_be_shared(const PagedSequence& parent, uint32_t tokens) const;
  bool writes_shared(const Group& group, const Table& table, uint32_t computed) const;
  void copy_tail(GroupId group, Table& table, uint32_t tokens, uint64_t last_step);
  void gather(const PagedSequence& sequence, uint32_t base, std::span<const uint32_t> kept);
  void fill(Group& group, Table& table, uint32_t from, uint32_t to);
  void leave_window(Group& group, Table& table, uint32_t computed, uint64_t last_step);
  void drop_all(PagedSequence& sequence);
  Status check_groups() const;

  std::vector<Group> groups_;
  std::unordered_map<SeqId, PagedSequence> sequences_;
  sdk::MoveQueue moves_;
  uint64_t step_ = 0;
  uint32_t context_ = 0;
};

Status PagedManager::bind_groups(const ModelShape& model, const KvGeometry& geometry) {
  if (model.group_count != geometry.group_count || geometry.group_count == 0) {
    return wrong("the model has " + std::to_string(model.group_count) +
                 " KV groups and the geometry " + std::to_string(geometry.group_count) +
                 " – they must be the same, and at least one");
  }
  groups_.resize(geometry.group_count);
  for (uint32_t g = 0; g < geometry.group_count; ++g) {
    if (model.groups[g].kind == KvKind::recurrent) {
      return Status::error(StatusCode::unsupported,
                           "KV group " + std::to_string(g) +
                               " keeps recurrent state – kv_cache 'paged' holds tokens only");
    }
    if (geometry.groups[g].block_tokens == 0 || geometry.groups[g].blocks == 0) {
      return wrong("KV group " + std::to_string(g) + " has no blocks – raise kv_cache.memory");
    }
    groups_[g].block_tokens = geometry.groups[g].block_tokens;
    groups_[g].window_tokens = model.groups[g].window_tokens;
    groups_[g].pool.reset(geometry.groups[g].blocks);
  }
  context_ = geometry.context_tokens;
  moves_.reserve(size_t{4} * geometry.max_sequences * geometry.group_count + 64);
  return {};
}

// A parent's last block may be partly filled. It can have two readers as it is when it ends where
// the child begins and nobody is about to write to it.
bool PagedManager::tail_can_be_shared(const PagedSequence& parent, uint32_t tokens) const {
  return tokens == parent.computed && parent.granted == parent.computed;
}

Status PagedManager::begin_sequence(const KvSequence& sequence) {
  if (sequences_.contains(sequence.seq)) {
    return wrong("sequence " + std::to_string(sequence.seq) + " has begun already");
  }
  PagedSequence made;
  made.limit = std::min(sequence.limit_tokens, context_);
  made.tables.resize(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    // From here on its table grows without allocating.
    made.tables[g].blocks.reserve(groups_[g].blocks_for(made.limit));
  }
  const PagedSequence* parent = nullptr;
  const uint32_t tokens = sequence.parent_tokens;
  if (sequence.parent != kNoSeq) {
    parent = find(sequence.parent);
    if (parent == nullptr) return unknown(sequence.parent);
    if (tokens > parent->computed || tokens > made.limit) {
      return wrong("a fork at token " + std::to_string(tokens) + " – the parent has " +
                   std::to_string(parent->computed));
    }
    for (const Group& group : groups_) {
      const bool copy = tokens % group.block_tokens != 0 && !tail_can_be_shared(*parent, tokens);
      if (copy && group.pool.free_count() == 0) return sdk::out_of_kv();
    }
  }
  PagedSequence& child = sequences_.emplace(sequence.seq, std::move(made)).first->second;
  // The map may have moved; look again.
  parent = sequence.parent == kNoSeq ? nullptr : find(sequence.parent);
  if (parent == nullptr) return {};
  child.computed = child.granted = tokens;
  child.last_step = parent->last_step;
  for (GroupId g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    Table& table = child.tables[g];
    const Table& from = parent->tables[g];
    table.left_behind = std::min<uint32_t>(from.left_behind, group.blocks_for(tokens));
    table.blocks.assign(from.blocks.begin(), from.blocks.begin() + group.blocks_for(tokens));
    for (size_t i = table.left_behind; i < table.blocks.size(); ++i) {
      group.pool.share(table.blocks[i]);
    }
    if (tokens % group.block_tokens != 0 && !tail_can_be_shared(*parent, tokens)) {
      copy_tail(g, table, tokens, child.last_step);
    }
  }
  return {};
}

Status PagedManager::match(SeqId seq, std::span<const TokenId>, uint32_t wanted_tokens,
                           KvMatch& out) noexcept {
  const PagedSequence* sequence = find(seq);
  if (sequence == nullptr) return unknown(seq);
  const Group& group = groups_.front();
  const Table& table = sequence->tables.front();
  const uint64_t wanted = group.blocks_for(std::min(wanted_tokens, sequence->limit));
  uint64_t blocks = wanted - std::min<uint64_t>(wanted, table.blocks.size());
  if (wanted_tokens > sequence->computed) blocks += writes_shared(group, table, sequence->computed);
  out = {};
  out.tokens_needed = blocks * group.block_tokens;
  for (size_t i = table.left_behind; i < table.blocks.size(); ++i) {
    out.tokens_held += group.block_tokens;
    if (!group.pool.shared(table.blocks[i])) out.tokens_exclusive += group.block_tokens;
  }
  return {};
}

// Whether the next token would be written into a block that another sequence reads.
bool PagedManager::writes_shared(const Group& group, const Table& table, uint32_t computed) const {
  if (computed % group.block_tokens == 0) return false;
  return group.pool.shared(table.blocks[computed / group.block_tokens]);
}

// Replaces the block that holds the last of `tokens` by a copy of its own. A block is free.
void PagedManager::copy_tail(GroupId g, Table& table, uint32_t tokens, uint64_t last_step) {
  Group& group = groups_[g];
  BlockId& entry = table.blocks[tokens / group.block_tokens];
  const uint32_t inside = tokens % group.block_tokens;
  const BlockId copy = group.pool.take();
  moves_.push({g, {{}, entry, 0}, {{}, copy, 0}, inside});
  group.pool.set_filled(copy, inside);
  group.pool.drop(entry, last_step);
  entry = copy;
}

Status PagedManager::grow(SeqId seq, std::span<const TokenId>, uint32_t computed, uint32_t at_least,
                          uint32_t at_most, KvGrant& out) noexcept {
  PagedSequence* sequence = find(seq);
  if (sequence == nullptr) return unknown(seq);
  if (Status status = sequence->check_grow(seq, computed, at_least, at_most); !status.ok()) {
    return status;
  }
  uint64_t most = std::min(at_most, sequence->limit - computed);
  for (GroupId g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    const Table& table = sequence->tables[g];
    const uint64_t copies = writes_shared(group, table, computed);
    if (copies > group.pool.free_count()) return sdk::out_of_kv();
    const uint64_t blocks = table.blocks.size() + group.pool.free_count() - copies;
    const uint64_t slots = blocks * group.block_tokens;
    most = std::min(most, slots > computed ? slots - computed : 0);
  }
  if (most < at_least) return sdk::out_of_kv();

  const uint32_t end = computed + static_cast<uint32_t>(most);
  for (GroupId g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    Table& table = sequence->tables[g];
    if (writes_shared(group, table, computed)) copy_tail(g, table, computed, sequence->last_step);
    while (table.blocks.size() < group.blocks_for(end)) table.blocks.push_back(group.pool.take());
  }
  sequence->granted = std::max(sequence->granted, end);
  sequence->last_step = step_;
  out = {0, static_cast<uint32_t>(most)};
  return {};
}

// Brings kept slots together behind `base`. Rising order: no source is overwritten before it was
// read.
void PagedManager::gather(const PagedSequence& sequence, uint32_t base,
                          std::span<const uint32_t> kept) {
  for (uint32_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == i) continue;
    for (GroupId g = 0; g < groups_.size(); ++g) {
      const uint32_t size = groups_[g].block_tokens;
      const std::vector<BlockId>& blocks = sequence.tables[g].blocks;
      const uint32_t from = base + kept[i], to = base + i;
      moves_.push(
          {g, {{}, blocks[from / size], from % size}, {{}, blocks[to / size], to % size}, 1});
    }
  }
}

void PagedManager::fill(Group& group, Table& table, uint32_t from, uint32_t to) {
  for (uint32_t i = from / group.block_tokens; i < table.blocks.size(); ++i) {
    const uint64_t first = uint64_t{i} * group.block_tokens;
    if (table.blocks[i] == kNoBlock) continue;
    if (group.pool.shared(table.blocks[i])) continue;
    const uint64_t inside = to > first ? to - first : 0;
    group.pool.set_filled(table.blocks[i],
                          static_cast<uint32_t>(std::min<uint64_t>(inside, group.block_tokens)));
  }
}

// The next row, at position `computed`, sees the last `window` positions up to itself.
void PagedManager::leave_window(Group& group, Table& table, uint32_t computed, uint64_t last_step) {
  if (group.window_tokens == 0 || computed < group.window_tokens) return;
  const uint32_t passed = (computed - group.window_tokens + 1) / group.block_tokens;
  const uint32_t end = std::min<uint32_t>(passed, static_cast<uint32_t>(table.blocks.size()));
  for (uint32_t i = end; i > table.left_behind; --i) {
    group.pool.drop(table.blocks[i - 1], last_step);
    table.blocks[i - 1] = kNoBlock;
  }
  table.left_behind = std::max(table.left_behind, end);
}

Status PagedManager::resolve(SeqId seq, std::span<const TokenId>, uint32_t base,
                             std::span<const uint32_t> kept, uint32_t computed) noexcept {
  PagedSequence* sequence = find(seq);
  if (sequence == nullptr) return unknown(seq);
  if (Status status = sequence->check_resolve(seq, base, kept, computed); !status.ok())
    return status;
  gather(*sequence, base, kept);
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    Table& table = sequence->tables[g];
    while (table.blocks.size() > group.blocks_for(computed)) {
      group.pool.drop(table.blocks.back(), sequence->last_step);
      table.blocks.pop_back();
    }
    fill(group, table, base, computed);
    leave_window(group, table, computed, sequence->last_step);
  }
  sequence->computed = sequence->granted = computed;
  return {};
}

void PagedManager::drop_all(PagedSequence& sequence) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    Table& table = sequence.tables[g];
    while (table.blocks.size() > table.left_behind) {
      groups_[g].pool.drop(table.blocks.back(), sequence.last_step);
      table.blocks.pop_back();
    }
    table.blocks.clear();
    table.left_behind = 0;
  }
  sequence.computed = sequence.granted = 0;
}

Status PagedManager::release(SeqId seq, Release how) noexcept {
  PagedSequence* sequence = find(seq);
  if (sequence == nullptr) return unknown(seq);
  if (how == Release::swap) {
    return Status::error(StatusCode::unsupported, "kv_cache 'paged' has no host pool to swap to");
  }
  drop_all(*sequence);
  if (how == Release::end) sequences_.erase(seq);
  return {};
}

Status PagedManager::table(SeqId seq, GroupId group, KvTableView& out) noexcept {
  const PagedSequence* sequence = find(seq);
  if (sequence == nullptr) return unknown(seq);
  if (group >= groups_.size()) return wrong("no KV group " + std::to_string(group));
  out.blocks = sequence->tables[group].blocks;
  return {};
}

KvUsage PagedManager::usage() const noexcept {
  if (groups_.empty()) return {};
  const Group& group = groups_.front();
  KvUsage usage;
  usage.total_tokens = uint64_t{group.pool.size()} * group.block_tokens;
  usage.free_tokens = uint64_t{group.pool.free_count()} * group.block_tokens;
  const uint64_t parked = uint64_t{group.pool.parked_count()} * group.block_tokens;
  usage.reserved_tokens = usage.total_tokens - usage.free_tokens - parked;
  usage.used_tokens = group.pool.filled_total();
  return usage;
}

Status PagedManager::check_groups() const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    std::vector<uint32_t> expected(group.pool.size(), 0);
    for (const auto& [seq, sequence] : sequences_) {
      const Table& table = sequence.tables[g];
      const std::string who = "sequence " + std::to_string(seq);
      if (table.blocks.size() != group.blocks_for(sequence.granted)) {
        return Status::error(StatusCode::internal,
                             who + " has " + std::to_string(table.blocks.size()) + " blocks for " +
                                 std::to_string(sequence.granted) + " slots");
      }
      for (size_t i = 0; i < table.blocks.size(); ++i) {
        if ((table.blocks[i] == kNoBlock) != (i < table.left_behind)) {
          return Status::error(StatusCode::internal, who + " has a hole in its table");
        }
        if (i >= table.left_behind) ++expected[static_cast<size_t>(table.blocks[i])];
      }
      const size_t next = sequence.computed / group.block_tokens;
      if (sequence.granted > sequence.computed && next < table.blocks.size() &&
          group.pool.shared(table.blocks[next])) {
        return Status::error(StatusCode::internal, who + " may write into a shared block");
      }
    }
    if (Status status = group.pool.check(expected); !status.ok()) return status;
  }
  return {};
}

constexpr Fact kProvides[] = {
    {.key = "kv.dtype", .op = FactOp::in, .number = 0, .words = "f32 f16 bf16 i8 i4"},
    {.key = "kv.block_tokens", .op = FactOp::at_least, .number = 1, .words = ""},
    {.key = "kv.sharing", .op = FactOp::in, .number = 0, .words = "copy_on_write"},
    {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
    {.key = "kv.swap", .op = FactOp::in, .number = 0, .words = "no"},
};
constexpr PluginDescriptor kPaged = sdk::with_facts(
    sdk::descriptor<KVCacheManager, PagedManager>(
        {.interface = kKvCacheInterface,
         .id = "paged",
         .version = "1.0.0",
         .summary = "gives blocks on demand, shares them between forks, copies on write",
         .license = "Apache-2.0"}),
    kProvides);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kPaged)
