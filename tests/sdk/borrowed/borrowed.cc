// A KV manager of the SDK under a name of its own: it needs the SDK's library, not headers alone.
#include <tenon/sdk/kv_cache/facts.h>
#include <tenon/sdk/kv_cache/prefix_manager.h>
#include <tenon/sdk/plugin.h>

namespace {

using namespace tenon;

class BorrowedManager final : public sdk::PrefixManager {
 public:
  BorrowedManager(const HostServices& host, const PipelineFacts& facts, const sdk::NoOptions&)
      : PrefixManager("test.borrowed", host, facts, sdk::EvictionOrder::lru) {}
};

constexpr PluginDescriptor kBorrowed =
    sdk::with_facts(sdk::descriptor<KVCacheManager, BorrowedManager>(
                        {.interface = kKvCacheInterface,
                         .id = "test.borrowed",
                         .version = "1.0.0",
                         .summary = "the SDK's manager with an index of prefixes, as it is",
                         .license = "Apache-2.0"}),
                    sdk::kPrefixManager.facts);

}  // namespace

TENON_PLUGIN_LIBRARY(&kBorrowed)
