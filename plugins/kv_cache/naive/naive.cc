// One contiguous region of the maximum length a sequence: the baseline that paging is measured
// against.
//
// A region is a block as long as the context (the fact kv.block_tokens = context), taken with a
// sequence's first token and given back with its end. Nothing is shared: a fork copies.
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

struct Region : sdk::KvProgress {
  BlockId block = kNoBlock;  // the same in every group
};

class NaiveManager final : public KVCacheManager {
 public:
  NaiveManager(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}

  Status bind(const ModelShape& model, const KvGeometry& geometry) noexcept override {
    return sdk::guard([&] { return bind_groups(model, geometry); });
  }
  Status begin(const KvSequence& sequence) noexcept override {
    return sdk::guard([&] { return begin_sequence(sequence); });
  }
  Status match(SeqId seq, std::span<const TokenId>, uint32_t wanted_tokens,
               KvMatch& out) noexcept override {
    const Region* region = find(seq);
    if (region == nullptr) return unknown(seq);
    out = {};
    if (region->block != kNoBlock) {
      out.tokens_held = out.tokens_exclusive = context_;
    } else if (wanted_tokens > 0) {
      out.tokens_needed = context_;
    }
    return {};
  }
  Status grow(SeqId seq, std::span<const TokenId> tokens, uint32_t computed, uint32_t at_least,
              uint32_t at_most, KvGrant& out) noexcept override;
  Status resolve(SeqId seq, std::span<const TokenId> tokens, uint32_t base,
                 std::span<const uint32_t> kept, uint32_t computed) noexcept override;
  Status release(SeqId seq, Release how) noexcept override;
  Status table(SeqId seq, GroupId group, KvTableView& out) noexcept override {
    const Region* region = find(seq);
    if (region == nullptr) return unknown(seq);
    if (group >= groups_) return wrong("no KV group " + std::to_string(group));
    out.blocks = {&region->block, region->block == kNoBlock ? 0u : 1u};
    return {};
  }
  Status take_moves(KvMovesOut& out) noexcept override {
    moves_.take(out);
    return {};
  }
  void step_begin(uint64_t step_id) noexcept override { step_ = step_id; }
  void step_done(uint64_t step_id) noexcept override { pool_.step_done(step_id); }
  KvUsage usage() const noexcept override {
    KvUsage usage;
    usage.total_tokens = uint64_t{pool_.size()} * context_;
    usage.free_tokens = uint64_t{pool_.free_count()} * context_;
    const uint64_t parked = uint64_t{pool_.parked_count()} * context_;
    usage.reserved_tokens = usage.total_tokens - usage.free_tokens - parked;
    usage.used_tokens = pool_.filled_total();
    return usage;
  }
  Status check() const noexcept override {
    return sdk::guard([&] {
      std::vector<uint32_t> expected(pool_.size(), 0);
      for (const auto& [seq, region] : regions_) {
        if (region.block != kNoBlock) ++expected[static_cast<size_t>(region.block)];
      }
      for (size_t i = 0; i < expected.size(); ++i) {
        if (expected[i] <= 1) continue;
        return Status::error(StatusCode::internal,
                             "region " + std::to_string(i) + " has several owners");
      }
      return pool_.check(expected);
    });
  }

 private:
  Region* find(SeqId seq) {
    const auto found = regions_.find(seq);
    return found == regions_.end() ? nullptr : &found->second;
  }
  static Status unknown(SeqId seq) { return wrong("no sequence " + std::to_string(seq)); }
  Status bind_groups(const ModelShape& model, const KvGeometry& geometry);
  Status begin_sequence(const KvSequence& sequence);
  void copy(BlockId block, uint32_t from, BlockId to_block, uint32_t to, uint32_t tokens);

  uint32_t groups_ = 0;
  uint32_t context_ = 0;
  sdk::BlockPool pool_;
  sdk::MoveQueue moves_;
  std::unordered_map<SeqId, Region> regions_;
  uint64_t step_ = 0;
};

Status NaiveManager::bind_groups(const ModelShape& model, const KvGeometry& geometry) {
  groups_ = geometry.group_count;
  context_ = geometry.context_tokens;
  uint32_t blocks = groups_ == 0 ? 0 : geometry.groups[0].blocks;
  for (uint32_t g = 0; g < groups_; ++g) {
    if (g < model.group_count && model.groups[g].kind == KvKind::recurrent) {
      return Status::error(StatusCode::unsupported,
                           "KV group " + std::to_string(g) +
                               " keeps recurrent state – kv_cache 'naive' holds tokens only");
    }
    if (geometry.groups[g].block_tokens < context_) {
      return wrong("KV group " + std::to_string(g) + " has blocks of " +
                   std::to_string(geometry.groups[g].block_tokens) +
                   " tokens – kv_cache 'naive' needs one block to hold the context of " +
                   std::to_string(context_));
    }
    blocks = std::min(blocks, geometry.groups[g].blocks);
  }
  if (blocks == 0) {
    return wrong("the KV memory has no room for one context of " + std::to_string(context_) +
                 " tokens – raise kv_cache.memory or lower limits.context_tokens");
  }
  pool_.reset(blocks);
  moves_.reserve(size_t{64} * groups_);
  return {};
}

void NaiveManager::copy(BlockId block, uint32_t from, BlockId to_block, uint32_t to,
                        uint32_t tokens) {
  for (GroupId g = 0; g < groups_; ++g) {
    moves_.push({g, {{}, block, from}, {{}, to_block, to}, tokens});
  }
}

Status NaiveManager::begin_sequence(const KvSequence& sequence) {
  if (regions_.contains(sequence.seq)) {
    return wrong("sequence " + std::to_string(sequence.seq) + " has begun already");
  }
  Region region;
  region.limit = std::min(sequence.limit_tokens, context_);
  if (sequence.parent != kNoSeq) {
    const Region* parent = find(sequence.parent);
    if (parent == nullptr) return unknown(sequence.parent);
    const uint32_t tokens = sequence.parent_tokens;
    if (tokens > parent->computed || tokens > region.limit) {
      return wrong("a fork at token " + std::to_string(tokens) + " – the parent has " +
                   std::to_string(parent->computed));
    }
    if (tokens > 0) {
      if (pool_.free_count() == 0) return sdk::out_of_kv();
      region.block = pool_.take();
      region.computed = region.granted = tokens;
      region.last_step = parent->last_step;
      pool_.set_filled(region.block, tokens);
      copy(parent->block, 0, region.block, 0, tokens);
    }
  }
  regions_.emplace(sequence.seq, region);
  return {};
}

Status NaiveManager::grow(SeqId seq, std::span<const TokenId>, uint32_t computed, uint32_t at_least,
                          uint32_t at_most, KvGrant& out) noexcept {
  Region* region = find(seq);
  if (region == nullptr) return unknown(seq);
  if (Status status = region->check_grow(seq, computed, at_least, at_most); !status.ok()) {
    return status;
  }
  if (region->block == kNoBlock) {
    if (pool_.free_count() == 0) return sdk::out_of_kv();
    region->block = pool_.take();
  }
  const uint32_t granted = std::min(at_most, region->limit - computed);
  region->granted = std::max(region->granted, computed + granted);
  region->last_step = step_;
  out = {0, granted};
  return {};
}

Status NaiveManager::resolve(SeqId seq, std::span<const TokenId>, uint32_t base,
                             std::span<const uint32_t> kept, uint32_t computed) noexcept {
  Region* region = find(seq);
  if (region == nullptr) return unknown(seq);
  if (Status status = region->check_resolve(seq, base, kept, computed); !status.ok()) return status;
  for (uint32_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == i) continue;
    copy(region->block, base + kept[i], region->block, base + i, 1);
  }
  region->computed = region->granted = computed;
  if (region->block != kNoBlock) pool_.set_filled(region->block, computed);
  return {};
}

Status NaiveManager::release(SeqId seq, Release how) noexcept {
  Region* region = find(seq);
  if (region == nullptr) return unknown(seq);
  if (how == Release::swap) {
    return Status::error(StatusCode::unsupported, "kv_cache 'naive' has no host pool to swap to");
  }
  if (region->block != kNoBlock) pool_.drop(region->block, region->last_step);
  const uint32_t limit = region->limit;
  *region = {};
  region->limit = limit;
  if (how == Release::end) regions_.erase(seq);
  return {};
}

constexpr Fact kProvides[] = {
    {.key = "kv.dtype", .op = FactOp::in, .number = 0, .words = "f32 f16 bf16 i8 i4"},
    {.key = "kv.block_tokens", .op = FactOp::context, .number = 0, .words = ""},
    {.key = "kv.sharing", .op = FactOp::in, .number = 0, .words = "none"},
    {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
    {.key = "kv.swap", .op = FactOp::in, .number = 0, .words = "no"},
};
constexpr PluginDescriptor kNaive = sdk::with_facts(
    sdk::descriptor<KVCacheManager, NaiveManager>(
        {.interface = kKvCacheInterface,
         .id = "naive",
         .version = "1.0.0",
         .summary = "reserves one contiguous region of the context's length for each sequence",
         .license = "Apache-2.0"}),
    kProvides);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kNaive)
