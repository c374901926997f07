// Paged blocks whose content outlives its sequence: a prompt that begins like an earlier one shares
// the full blocks of the common beginning instead of computing them.
//
// After automatic prefix caching in vLLM (Kwon et al., SOSP 2023, and its successors): a block is
// found by a hash chained over everything before it; here the hash only finds, tokens decide. The
// manager is <tenon/sdk/kv_cache/prefix_manager.h>, its index <tenon/sdk/kv_cache/prefix_index.h>.
#include <tenon/sdk/kv_cache/facts.h>
#include <tenon/sdk/kv_cache/prefix_manager.h>
#include <tenon/sdk/plugin.h>

namespace tenon {
namespace {

struct Options {
  sdk::EvictionOrder eviction = sdk::EvictionOrder::lru;
  int64_t hash_bits = 64;
};
// In the order of EvictionOrder.
constexpr std::string_view kEvictions[] = {"lru", "lfu", "fifo"};
constexpr OptionSpec kOptions[] = {
    sdk::choice<&Options::eviction>("eviction", 0, kEvictions,
                                    "which cached block goes first: given back longest ago, found "
                                    "least often, or cached first"),
    sdk::integer<&Options::hash_bits>(
        "hash_bits", 64, 1, 64, "bits",
        "of the hash that finds blocks; fewer make collisions, which cost time and nothing else"),
};
TENON_CHECK_OPTIONS(kOptions);

class CachingManager final : public sdk::PrefixManager {
 public:
  CachingManager(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : PrefixManager("prefix", host, facts, options.eviction,
                      static_cast<uint32_t>(options.hash_bits)) {}
};

constexpr PluginDescriptor kPrefix = sdk::with_facts(
    sdk::descriptor<KVCacheManager, CachingManager, Options>(
        {.id = "prefix",
         .version = "1.0.0",
         .summary =
             "paged, and full blocks of an earlier prompt with the same beginning are shared",
         .license = "Apache-2.0"},
        kOptions),
    sdk::kPrefixManager.facts);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kPrefix)
