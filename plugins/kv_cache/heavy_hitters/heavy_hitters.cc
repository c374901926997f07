// Text of any length in memory of a fixed size: of each sequence the first tokens stay, a window of
// the latest ones, and of those in between the ones that were attended to most, the heavy hitters.
//
// After H2O (Zhang et al., NeurIPS 2023, arXiv:2306.14048): few tokens get most of the attention,
// and which these are shows in the sums of the weights that they got so far. There each head keeps
// its own, and a token goes at each step. Here a group of layers has one table, so heads and layers
// are summed, and tokens go a stride at a time.
//
//   [ sinks | heavy ........ | stride | window .... ]     once the window has passed a stride
//                └─ best of both ─┘└ goes ┘
//
// The heaviest of the heavy region and of the stride stay: what the stride has of them is moved to
// the places of what goes, then the stride's blocks are given back. So to the tables this is a
// window with sinks, of which some are rewritten (<tenon/sdk/kv_cache/sink_window.h>).
//
// Weights are whole numbers that kernels add up for each row (AttentionScores), and a step of a
// sequence ends where a stride goes: what stays follows from the sequence's tokens alone, not from
// chunks, batches, drafts or preemption.
#include <tenon/sdk/kv_cache/block_manager.h>
#include <tenon/sdk/kv_cache/facts.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace tenon {
namespace {

using sdk::BlockGroup;
using sdk::BlockSequence;
using sdk::BlockTable;
using sdk::SinkWindow;

struct Options {
  int64_t sink_tokens = 4;
  int64_t heavy_tokens = 252;
  int64_t window_tokens = 768;
  int64_t stride_tokens = 128;
};
constexpr int64_t kMostTokens = 1 << 24;
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::sink_tokens>("sink_tokens", 4, 0, kMostTokens, "tokens",
                                        "the first ones of a sequence, which stay"),
    sdk::integer<&Options::heavy_tokens>(
        "heavy_tokens", 252, 1, kMostTokens, "tokens",
        "those that got the most attention, which stay; with the sinks up to whole blocks"),
    sdk::integer<&Options::window_tokens>(
        "window_tokens", 768, 1, kMostTokens, "tokens",
        "the latest ones that every token sees, itself among them; up to whole blocks"),
    sdk::integer<&Options::stride_tokens>(
        "stride_tokens", 128, 1, kMostTokens, "tokens",
        "evicted at a time, and computed of one sequence in a step at most once it evicts; up to "
        "whole blocks"),
};
TENON_CHECK_OPTIONS(kOptions);

Status unsupported(const std::string& text) {
  return Status::error(StatusCode::unsupported, text);
}

class HeavyHittersManager final : public sdk::BlockManager {
 public:
  HeavyHittersManager(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : BlockManager("heavy_hitters", host), options_(options) {
    scores_.self = this;
    scores_.add = [](void* self, SeqId seq, GroupId group,
                     std::span<const uint64_t> sums) noexcept {
      return static_cast<HeavyHittersManager*>(self)->add(seq, group, sums);
    };
    const ResolvedFact* block = facts.find("kv.block_tokens");
    if (block != nullptr) state_rule(static_cast<uint32_t>(block->number));
  }

  Status bind(const ModelShape& model, const KvGeometry& geometry) noexcept override {
    for (LayerId layer = 0; layer < model.layer_count; ++layer) {
      if (model.layers[layer].alibi_slopes == nullptr) continue;
      return unsupported("layer " + std::to_string(layer) +
                         " weighs distances (ALiBi), which are counted in entries – kv_cache "
                         "'heavy_hitters' moves entries; kv_cache 'streaming' keeps their order");
    }
    return BlockManager::bind(model, geometry);
  }

  const void* extension(std::string_view id) const {
    if (eviction_.most_tokens == 0) return nullptr;
    if (id == kKvEviction) return &eviction_;
    return id == kKvScores ? &scores_ : nullptr;
  }

 protected:
  SinkWindow kept_of(const KvGroup&, const KvGroupGeometry& sizes) const override {
    return in_blocks_of(sizes.block_tokens);
  }
  Status bound() override;
  void begun(BlockSequence& child, const KvSequence&, const BlockSequence* parent) override;
  void grown(BlockSequence& sequence, std::span<const TokenId>, uint32_t) override {
    if (sequence.computed == 0) forget(sequence);
  }
  void resolved(BlockSequence& sequence, std::span<const TokenId>) override;

 private:
  // What each entry of a sequence's table got, in one group.
  using Weights = std::vector<uint64_t>;

  SinkWindow in_blocks_of(uint32_t tokens) const {
    const auto whole = [tokens](int64_t wanted) {
      return static_cast<uint32_t>((wanted + tokens - 1) / tokens * tokens);
    };
    return {.sink_tokens = whole(options_.sink_tokens + options_.heavy_tokens),
            .window_tokens = whole(options_.window_tokens),
            .stride_tokens = whole(options_.stride_tokens),
            .rewritten = true};
  }
  uint32_t sinks() const { return static_cast<uint32_t>(options_.sink_tokens); }
  uint32_t most_entries() const { return std::min(rule_.most_tokens(), context_tokens()); }
  void state_rule(uint32_t block_tokens);
  // [groups that evict] of a sequence.
  std::span<Weights> weights_of(const BlockSequence& sequence) {
    return std::span(weights_).subspan(sequence.slot * evicting_.size(), evicting_.size());
  }
  void forget(const BlockSequence& sequence) {
    for (Weights& weights : weights_of(sequence)) std::ranges::fill(weights, 0);
  }
  Status add(SeqId seq, GroupId group, std::span<const uint64_t> sums) noexcept;
  void choose(const Weights& weights);
  void evict(const BlockGroup& group, const BlockTable& table, Weights& weights);

  Options options_;
  std::string numerics_;
  KvEviction eviction_;
  KvScores scores_;
  SinkWindow rule_;
  std::vector<GroupId> evicting_;
  std::vector<Weights> weights_;  // [slots of sequences][evicting_]
  // Of an eviction: entries by weight, what goes of the heavy region, what comes into it.
  std::vector<uint32_t> order_, going_, coming_;
};

void HeavyHittersManager::state_rule(uint32_t block_tokens) {
  rule_ = in_blocks_of(block_tokens);
  numerics_ = "heavy_hitters(sinks=" + std::to_string(sinks()) +
              " heavy=" + std::to_string(rule_.sink_tokens - sinks()) +
              " window=" + std::to_string(rule_.window_tokens) +
              " stride=" + std::to_string(rule_.stride_tokens) + ")";
  eviction_ = {.first = rule_.first(),
               .every = rule_.stride_tokens,
               .most_tokens = rule_.most_tokens(),
               .numerics = numerics_};
}

Status HeavyHittersManager::bound() {
  const BlockGroup* first = nullptr;
  evicting_.clear();
  weights_.clear();
  for (const BlockGroup& group : groups()) {
    if (!group.evicts()) continue;
    if (first == nullptr) first = &group;
    if (group.block_tokens() != first->block_tokens()) {
      return unsupported("KV groups " + std::to_string(first->id()) + " and " +
                         std::to_string(group.id()) +
                         " have blocks of different sizes – kv_cache 'heavy_hitters' evicts at the "
                         "same positions from both");
    }
    evicting_.push_back(group.id());
  }
  if (first == nullptr) {
    return unsupported(
        "no layer of the model attends to all tokens – kv_cache 'heavy_hitters' has nothing to "
        "evict; kv_cache 'paged' holds as little");
  }
  state_rule(first->block_tokens());
  return {};
}

void HeavyHittersManager::begun(BlockSequence& child, const KvSequence&,
                                const BlockSequence* parent) {
  const size_t needed = (size_t{child.slot} + 1) * evicting_.size();
  if (weights_.size() < needed) weights_.resize(needed, Weights(most_entries(), 0));
  if (parent == nullptr) return forget(child);
  std::ranges::copy(weights_of(*parent), weights_of(child).begin());
}

Status HeavyHittersManager::add(SeqId seq, GroupId group, std::span<const uint64_t> sums) noexcept {
  const BlockSequence* sequence = find(seq);
  const auto found = std::ranges::find(evicting_, group);
  if (sequence == nullptr || found == evicting_.end() || sums.size() > most_entries()) {
    return sdk::guard([&] {
      return wrong("weights of " + std::to_string(sums.size()) + " entries of sequence " +
                   std::to_string(seq) + " in KV group " + std::to_string(group) +
                   " – expected at most " + std::to_string(most_entries()) +
                   " of a sequence that began, in a group that evicts");
    });
  }
  Weights& weights = weights_of(*sequence)[static_cast<size_t>(found - evicting_.begin())];
  for (size_t entry = 0; entry < sums.size(); ++entry) weights[entry] += sums[entry];
  return {};
}

void HeavyHittersManager::resolved(BlockSequence& sequence, std::span<const TokenId>) {
  for (size_t i = 0; i < evicting_.size(); ++i) {
    for (const BlockGroup& group : groups()) {
      const BlockTable& table = sequence.tables[group.id()];
      if (group.id() != evicting_[i] || group.passed(sequence.computed) <= table.left_behind) {
        continue;
      }
      evict(group, table, weights_of(sequence)[i]);
    }
  }
}

// Which entries of the heavy region go, and which of the stride after it come; both rise. Of
// equals the one that is further in front stays.
void HeavyHittersManager::choose(const Weights& weights) {
  const uint32_t end = rule_.sink_tokens + rule_.stride_tokens;
  order_.resize(end - sinks());
  std::iota(order_.begin(), order_.end(), sinks());
  const auto kept = order_.begin() + (rule_.sink_tokens - sinks());
  std::nth_element(order_.begin(), kept, order_.end(), [&weights](uint32_t a, uint32_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
  });
  going_.clear();
  coming_.clear();
  for (auto at = order_.begin(); at != kept; ++at) {
    if (*at >= rule_.sink_tokens) coming_.push_back(*at);
  }
  for (auto at = kept; at != order_.end(); ++at) {
    if (*at < rule_.sink_tokens) going_.push_back(*at);
  }
  std::ranges::sort(coming_);
  std::ranges::sort(going_);
}

void HeavyHittersManager::evict(const BlockGroup& group, const BlockTable& table,
                                Weights& weights) {
  choose(weights);
  moves().make_room(coming_.size());
  const uint32_t size = group.block_tokens();
  // Of the table, block i of the stride stands where none was left behind yet.
  const uint32_t stride_at = std::max(table.left_behind, rule_.sink_tokens / size);
  for (size_t i = 0; i < coming_.size(); ++i) {
    const uint32_t from = coming_[i] - rule_.sink_tokens, to = going_[i];
    moves().push({group.id(),
                  {{}, table.blocks[stride_at + from / size], from % size},
                  {{}, table.blocks[to / size], to % size},
                  1});
    weights[to] = weights[coming_[i]];
  }
  const auto behind = weights.begin() + rule_.sink_tokens;
  std::fill(std::copy(behind + rule_.stride_tokens, weights.end(), behind), weights.end(), 0);
  host().count(host().context, "heavy_tokens", coming_.size());
}

constexpr Fact kProvides[] = {
    {.key = "kv.dtype", .op = FactOp::in, .number = 0, .words = "f32 f16 bf16 i8 i4"},
    {.key = "kv.block_tokens", .op = FactOp::at_least, .number = 1, .words = ""},
    {.key = "kv.sharing", .op = FactOp::in, .number = 0, .words = "copy_on_write"},
    {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
    {.key = "kv.swap", .op = FactOp::in, .number = 0, .words = "no yes"},
    // What the rows of a tree gave belongs to entries that are moved when a path is kept.
    {.key = "kv.trees", .op = FactOp::in, .number = 0, .words = "no"},
    {.key = "kv.recurrent", .op = FactOp::in, .number = 0, .words = "no yes"},
    // A second model catches up with what it has not seen, which may have been evicted.
    {.key = "draft.needs", .op = FactOp::in, .number = 0, .words = "nothing hidden"},
};
// A grant may end before a prompt does.
constexpr Fact kNeeds[] = {
    {.key = "sched.emits", .op = FactOp::all_of, .number = 0, .words = "chunks"},
};
constexpr PluginDescriptor kHeavyHitters = sdk::with_requirements(
    sdk::with_facts(sdk::descriptor<KVCacheManager, HeavyHittersManager, Options>(
                        {.id = "heavy_hitters",
                         .version = "1.0.0",
                         .summary = "keeps a sequence's first tokens, those that were attended to "
                                    "most, and a window of the latest ones; evicts the others",
                         .license = "Apache-2.0"},
                        kOptions),
                    kProvides),
    kNeeds);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kHeavyHitters)
