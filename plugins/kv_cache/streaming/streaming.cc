// Text of any length in memory of a fixed size: of each sequence the first tokens stay, the sinks,
// and a window of the latest ones. What lies between is evicted.
//
// After StreamingLLM (Xiao et al., ICLR 2024): attention keeps falling on the first tokens,
// whatever they say, and a window without them makes no sense once they leave it. There positions
// are counted inside the cache; here K is stored as it was rotated, and positions go on, so that
// nothing is rotated anew when a block goes. Kernels that weigh distances themselves (ALiBi) count
// entries.
//
// Which tokens a row sees follows from its position alone: a step of a sequence ends where its
// blocks go. So tokens and bits do not depend on chunks, batches, drafts or preemption. The rule is
// <tenon/sdk/kv_cache/sink_window.h>, the manager <tenon/sdk/kv_cache/block_manager.h>.
#include <tenon/sdk/kv_cache/block_manager.h>
#include <tenon/sdk/kv_cache/facts.h>
#include <tenon/sdk/plugin.h>

#include <string>

namespace tenon {
namespace {

using sdk::SinkWindow;

struct Options {
  int64_t sink_tokens = 4;
  int64_t window_tokens = 1024;
  int64_t stride_tokens = 128;
};
constexpr int64_t kMostTokens = 1 << 24;
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::sink_tokens>(
        "sink_tokens", 4, 0, kMostTokens, "tokens",
        "the first ones of a sequence, which stay; up to whole blocks"),
    sdk::integer<&Options::window_tokens>(
        "window_tokens", 1024, 1, kMostTokens, "tokens",
        "the latest ones that every token sees, itself among them; up to whole blocks"),
    sdk::integer<&Options::stride_tokens>(
        "stride_tokens", 128, 1, kMostTokens, "tokens",
        "evicted at a time, and computed of one sequence in a step at most once it evicts; up to "
        "whole blocks"),
};
TENON_CHECK_OPTIONS(kOptions);

class StreamingManager final : public sdk::BlockManager {
 public:
  StreamingManager(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : BlockManager("streaming", host), options_(options) {
    const ResolvedFact* block = facts.find("kv.block_tokens");
    if (block != nullptr) state_rule(static_cast<uint32_t>(block->number));
  }

  const void* extension(std::string_view id) const {
    return id == kKvEviction && eviction_.most_tokens > 0 ? &eviction_ : nullptr;
  }

 protected:
  SinkWindow kept_of(const KvGroup&, const KvGroupGeometry& sizes) const override {
    return in_blocks_of(sizes.block_tokens);
  }
  Status bound() override {
    const sdk::BlockGroup* evicting = nullptr;
    for (const sdk::BlockGroup& group : groups()) {
      if (!group.evicts()) continue;
      if (evicting != nullptr && group.block_tokens() != evicting->block_tokens()) {
        return unsupported("KV groups " + std::to_string(evicting->id()) + " and " +
                           std::to_string(group.id()) +
                           " have blocks of different sizes – kv_cache 'streaming' evicts the "
                           "same tokens from both");
      }
      evicting = &group;
    }
    if (evicting == nullptr) {
      return unsupported(
          "no layer of the model attends to all tokens – kv_cache 'streaming' has nothing to "
          "evict; kv_cache 'paged' holds as little");
    }
    state_rule(evicting->block_tokens());
    return {};
  }

 private:
  static Status unsupported(const std::string& text) {
    return Status::error(StatusCode::unsupported, text);
  }
  SinkWindow in_blocks_of(uint32_t tokens) const {
    const auto whole = [tokens](int64_t wanted) {
      return static_cast<uint32_t>((wanted + tokens - 1) / tokens * tokens);
    };
    return {.sink_tokens = whole(options_.sink_tokens),
            .window_tokens = whole(options_.window_tokens),
            .stride_tokens = whole(options_.stride_tokens)};
  }
  void state_rule(uint32_t block_tokens) {
    const SinkWindow rule = in_blocks_of(block_tokens);
    numerics_ = "streaming(sinks=" + std::to_string(rule.sink_tokens) +
                " window=" + std::to_string(rule.window_tokens) +
                " stride=" + std::to_string(rule.stride_tokens) + ")";
    eviction_ = {.first = rule.first(),
                 .every = rule.stride_tokens,
                 .most_tokens = rule.most_tokens(),
                 .numerics = numerics_};
  }

  Options options_;
  std::string numerics_;
  KvEviction eviction_;
};

constexpr Fact kProvides[] = {
    {.key = "kv.dtype", .op = FactOp::in, .number = 0, .words = "f32 f16 bf16 i8 i4"},
    {.key = "kv.block_tokens", .op = FactOp::at_least, .number = 1, .words = ""},
    {.key = "kv.sharing", .op = FactOp::in, .number = 0, .words = "copy_on_write"},
    {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
    {.key = "kv.swap", .op = FactOp::in, .number = 0, .words = "no yes"},
    {.key = "kv.trees", .op = FactOp::in, .number = 0, .words = "no yes"},
    {.key = "kv.recurrent", .op = FactOp::in, .number = 0, .words = "no yes"},
    // A second model catches up with what it has not seen, which may have been evicted.
    {.key = "draft.needs", .op = FactOp::in, .number = 0, .words = "nothing hidden"},
};
// A grant may end before a prompt does.
constexpr Fact kNeeds[] = {
    {.key = "sched.emits", .op = FactOp::all_of, .number = 0, .words = "chunks"},
};
constexpr PluginDescriptor kStreaming = sdk::with_requirements(
    sdk::with_facts(sdk::descriptor<KVCacheManager, StreamingManager, Options>(
                        {.id = "streaming",
                         .version = "1.0.0",
                         .summary = "keeps a sequence's first tokens and a window of the latest "
                                    "ones, evicts the others",
                         .license = "Apache-2.0"},
                        kOptions),
                    kProvides),
    kNeeds);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kStreaming)
