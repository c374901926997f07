// One contiguous region of the maximum length a sequence: the baseline that paging is measured
// against.
//
// A region is a block as long as the context (the fact kv.block_tokens = context), taken with a
// sequence's first token and given back with its end. Nothing is shared: a fork copies. The manager
// itself is <tenon/sdk/kv_cache/block_manager.h>; this file turns sharing off.
#include <tenon/sdk/kv_cache/block_manager.h>
#include <tenon/sdk/plugin.h>

namespace tenon {
namespace {

class NaiveManager final : public sdk::BlockManager {
 public:
  NaiveManager(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : BlockManager("naive", host) {}

 protected:
  Status bound() override {
    for (const sdk::BlockGroup& group : groups()) {
      if (group.block_tokens() >= context_tokens()) continue;
      return wrong("KV group " + std::to_string(group.id()) + " has blocks of " +
                   std::to_string(group.block_tokens()) +
                   " tokens – kv_cache 'naive' needs one block to hold the context of " +
                   std::to_string(context_tokens()));
    }
    return {};
  }
  bool shares_tails() const override { return false; }
};

constexpr Fact kProvides[] = {
    {.key = "kv.dtype", .op = FactOp::in, .number = 0, .words = "f32 f16 bf16 i8 i4"},
    {.key = "kv.block_tokens", .op = FactOp::context, .number = 0, .words = ""},
    {.key = "kv.sharing", .op = FactOp::in, .number = 0, .words = "none"},
    {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
    {.key = "kv.swap", .op = FactOp::in, .number = 0, .words = "no yes"},
    {.key = "kv.trees", .op = FactOp::in, .number = 0, .words = "no yes"},
    {.key = "kv.recurrent", .op = FactOp::in, .number = 0, .words = "no yes"},
};
constexpr PluginDescriptor kNaive = sdk::with_facts(
    sdk::descriptor<KVCacheManager, NaiveManager>(
        {.id = "naive",
         .version = "1.1.0",
         .summary = "reserves one contiguous region of the context's length for each sequence",
         .license = "Apache-2.0"}),
    kProvides);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kNaive)
