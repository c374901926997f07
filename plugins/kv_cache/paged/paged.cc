// Blocks on demand: a sequence holds as many blocks as its tokens need, each wherever one was free.
//
// After PagedAttention (Kwon et al., SOSP 2023). Forks share blocks by reference; a shared block
// is copied before it is written. Where a group has a sliding window, blocks that have left it are
// given back while the sequence runs. All of it is done by <tenon/sdk/kv_cache/block_manager.h>;
// the call that frees a block is BlockPool::drop (<tenon/sdk/kv_cache/block_pool.h>).
#include <tenon/sdk/kv_cache/block_manager.h>
#include <tenon/sdk/kv_cache/facts.h>
#include <tenon/sdk/plugin.h>

namespace tenon {
namespace {

class PagedManager final : public sdk::BlockManager {
 public:
  PagedManager(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : BlockManager("paged", host) {}
};

constexpr PluginDescriptor kPaged = sdk::with_facts(
    sdk::descriptor<KVCacheManager, PagedManager>(
        {.id = "paged",
         .version = "1.1.0",
         .summary = "gives blocks on demand, shares them between forks, copies on write",
         .license = "Apache-2.0"}),
    sdk::kBlockManager.facts);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kPaged)
