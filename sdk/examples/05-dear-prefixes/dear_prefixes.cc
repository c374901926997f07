// A KV manager that keeps what was dear to compute: of cached prefixes the cheapest goes first.
//
// GreedyDual-Size-Frequency (Cherkasova, 1998) over prefixes. When a sequence gives its blocks
// back, each is worth
//   age + (1 + how often it was found) · what its sequence cost to compute
// where a token costs 1 and, for the attention over the tokens before it, another 1 every
// `attention_tokens` tokens. The age is the worth of the block that was evicted last: blocks that
// are not used are overtaken by new ones, however expensive they were. A long document outlives a
// crowd of short prompts that pass by once, which push it out where the least recently used goes
// first.
//
// A prefix is of no use without its beginning. A block's worth therefore never falls below that of
// a sequence that goes on after it, and of one worth the deepest goes first.
#include <tenon/sdk/kv_cache/facts.h>
#include <tenon/sdk/kv_cache/prefix_manager.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <cstdint>

namespace {

using namespace tenon;

struct Options {
  int64_t attention_tokens = 4096;
};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::attention_tokens>(
        "attention_tokens", 4096, 1, 1 << 30, "tokens",
        "so many tokens in front of it double what a token costs to compute"),
};
TENON_CHECK_OPTIONS(kOptions);

class DearPrefixes final : public sdk::PrefixManager {
 public:
  // The pool's order `fifo` evicts the lowest "owner" first and of one owner the deepest block:
  // here the owner is the worth.
  DearPrefixes(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : PrefixManager("example.dear_prefixes", host, facts, sdk::EvictionOrder::fifo),
        attention_tokens_(static_cast<uint64_t>(options.attention_tokens)) {}

 protected:
  Status bound() override {
    age_ = 0;
    return PrefixManager::bound();
  }

  // All blocks are still the sequence's own, so the heap of cached ones is not touched.
  void releasing(sdk::BlockSequence& sequence) override {
    const uint64_t cost = cost_of(sequence.computed);
    for (sdk::BlockGroup& group : groups()) {
      const sdk::BlockTable& table = sequence.tables[group.id()];
      group.each_held(table, [&](uint32_t depth) {
        const BlockId block = table.blocks[depth];
        if (!group.pool.kept(block)) return;
        const uint64_t worth = age_ + (1 + uint64_t{group.pool.finds(block)}) * cost;
        group.pool.keep(block, std::max(worth, group.pool.owner(block)), depth);
      });
    }
    PrefixManager::releasing(sequence);
  }

  void evicted(GroupId id, BlockId block) override {
    for (const sdk::BlockGroup& group : groups()) {
      if (group.id() == id) age_ = std::max(age_, group.pool.owner(block));
    }
    PrefixManager::evicted(id, block);
  }

 private:
  // Of computing so many tokens: the sum of 1 + position / attention_tokens.
  uint64_t cost_of(uint64_t tokens) const {
    return tokens + tokens * tokens / (2 * attention_tokens_);
  }

  uint64_t attention_tokens_;
  uint64_t age_ = 0;
};

constexpr PluginDescriptor kDearPrefixes =
    sdk::with_facts(sdk::descriptor<KVCacheManager, DearPrefixes, Options>(
                        {.id = "example.dear_prefixes",
                         .version = "1.0.0",
                         .summary = "keeps prefixes; of those that nobody holds the one that is "
                                    "cheapest to compute again goes first",
                         .license = "Apache-2.0"},
                        kOptions),
                    sdk::kPrefixManager.facts);

}  // namespace

TENON_PLUGIN_LIBRARY(&kDearPrefixes)
