// K/V that outlives its sequence, and its process: tokens are those of computing everything.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "core/tiers/disk_store.h"
#include "core/tiers/host_store.h"
#include "tests/fake_device/rig/rig.h"
#include "tests/support/models/memory_files.h"

namespace tenon {
namespace {

constexpr uint32_t kTierVocabulary = 61;

std::vector<TokenId> tier_prompt(uint64_t seed, uint32_t tokens) {
  return TestRandom(seed).tokens(tokens, kTierVocabulary);
}

RigOptions options_with_tiers(MemoryDisk& disk) {
  RigOptions options;
  options.kv_cache = "prefix";
  options.block_tokens = 4;
  options.tiers = [&disk](const std::string& world) {
    std::vector<std::unique_ptr<TierStore>> stores;
    stores.push_back(*DiskStore::open("/kv", 1 << 24, world, std::make_unique<MemoryFiles>(disk)));
    return stores;
  };
  return options;
}

// Runs the prompts one after another, each with its tokens checked; returns how many tokens came
// from tiers.
uint64_t run_with_tiers(const RigOptions& options,
                        const std::vector<std::vector<TokenId>>& prompts) {
  Rig rig(options);
  for (const std::vector<TokenId>& prompt : prompts) {
    const Request request = greedy_request(prompt, 6);
    const RequestId id = rig.submit(request);
    rig.run();
    const Expected expected = oracle(options.model(), request, 0, options.context_tokens);
    EXPECT_EQ(rig.result(id).ids(), expected.ids);
    EXPECT_EQ(rig.result(id).record.logits_digest, expected.digest);
  }
  EXPECT_EQ(rig.engine().last_fault(), "");
  rig.tiers().settle();
  return rig.tiers().totals().found_tokens;
}

TEST(KvTiers, let_a_restart_find_yesterdays_prompts) {
  for (const char* manager : {"prefix", "radix"}) {
    SCOPED_TRACE(manager);
    MemoryDisk disk;
    RigOptions options = options_with_tiers(disk);
    options.kv_cache = manager;
    EXPECT_EQ(run_with_tiers(options, {tier_prompt(1, 41)}), 0u);
    EXPECT_EQ(run_with_tiers(options, {tier_prompt(1, 41)}), 40u);
  }
}

TEST(KvTiers, bring_as_much_as_a_prompt_has_in_common) {
  MemoryDisk disk;
  const RigOptions options = options_with_tiers(disk);
  std::vector<TokenId> other = tier_prompt(1, 20);
  const std::vector<TokenId> tail = tier_prompt(2, 21);
  other.insert(other.end(), tail.begin(), tail.end());
  run_with_tiers(options, {tier_prompt(1, 41)});
  EXPECT_EQ(run_with_tiers(options, {other}), 20u);
}

TEST(KvTiers, keep_answers_for_the_next_turn) {
  MemoryDisk disk;
  const RigOptions options = options_with_tiers(disk);
  std::vector<TokenId> turn = tier_prompt(1, 10);
  const std::vector<TokenId> answer =
      oracle(options.model(), greedy_request(turn, 6), 0, options.context_tokens).ids;
  run_with_tiers(options, {turn});
  turn.insert(turn.end(), answer.begin(), answer.end());
  turn.push_back(3);
  turn.push_back(4);
  EXPECT_EQ(run_with_tiers(options, {turn}), 12u);
}

TEST(KvTiers, keep_groups_with_windows_and_without) {
  for (const uint32_t window : {3u, 9u}) {
    MemoryDisk disk;
    RigOptions options = options_with_tiers(disk);
    options.window_tokens = window;
    options.second_window = 0;
    run_with_tiers(options, {tier_prompt(1, 41)});
    EXPECT_EQ(run_with_tiers(options, {tier_prompt(1, 41), tier_prompt(1, 41)}), 40u) << window;
  }
}

TEST(KvTiers, keep_recurrent_states_with_attention_beside_them_and_without) {
  for (const bool attends : {true, false}) {
    SCOPED_TRACE(attends ? "hybrid" : "recurrent alone");
    MemoryDisk disk;
    RigOptions options = options_with_tiers(disk);
    options.recurrent = true;
    options.attends = attends;
    if (!attends) options.block_tokens = 16;
    const auto long_prompt = tier_prompt(1, 99);
    run_with_tiers(options, {long_prompt});
    EXPECT_EQ(run_with_tiers(options, {long_prompt}), attends ? 96u : 96u);
  }
}

TEST(KvTiers, serve_what_a_small_cache_has_evicted) {
  MemoryDisk disk;
  RigOptions options = options_with_tiers(disk);
  options.kv_tokens = 64;
  options.context_tokens = 64;
  std::vector<std::vector<TokenId>> prompts;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t seed = 1; seed <= 5; ++seed) prompts.push_back(tier_prompt(seed, 41));
  }
  EXPECT_EQ(run_with_tiers(options, prompts), 10u * 40u);
}

TEST(KvTiers, leave_other_salts_alone) {
  MemoryDisk disk;
  const RigOptions options = options_with_tiers(disk);
  run_with_tiers(options, {tier_prompt(1, 41)});
  Rig rig(options);
  Request request = greedy_request(tier_prompt(1, 41), 3);
  request.cache_salt = 5;
  rig.submit(request);
  rig.run();
  EXPECT_EQ(rig.tiers().totals().found_tokens, 0u);
}

TEST(KvTiers, cost_no_token_when_their_files_are_damaged) {
  MemoryDisk disk;
  const RigOptions options = options_with_tiers(disk);
  run_with_tiers(options, {tier_prompt(1, 41)});
  size_t number = 0;
  for (auto& [path, file] : disk.files) {
    if (number++ % 3 == 0 && !file.bytes.empty()) file.bytes.back() ^= std::byte{1};
  }
  EXPECT_LT(run_with_tiers(options, {tier_prompt(1, 41)}), 40u);
  EXPECT_EQ(run_with_tiers(options, {tier_prompt(1, 41)}), 40u) << "what was lost is written again";
}

// A store that answers only when it is let; nothing is in it, or what another one has.
class SlowStore final : public TierStore {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
    void let(bool is_open = true) {
      const std::lock_guard lock(mutex);
      open = is_open;
      opened.notify_all();
    }
  };
  explicit SlowStore(Gate& gate, std::unique_ptr<TierStore> below = nullptr)
      : gate_(gate), below_(std::move(below)) {}
  std::string_view kind() const override { return "slow"; }
  bool has(const KvKey& key) override {
    std::unique_lock lock(gate_.mutex);
    gate_.opened.wait(lock, [this] { return gate_.open; });
    return below_ != nullptr && below_->has(key);
  }
  SharedBlob read(const KvKey& key, uint64_t bytes) override {
    return below_ == nullptr ? SharedBlob() : below_->read(key, bytes);
  }
  Status write(const KvKey& key, const SharedBlob& blob) override {
    return below_ == nullptr ? Status() : below_->write(key, blob);
  }
  KvStoreTotals totals() const override { return {}; }

 private:
  Gate& gate_;
  std::unique_ptr<TierStore> below_;
};

// However the test ends, its rig does not wait for ever.
struct OpenAtEnd {
  SlowStore::Gate& gate;
  ~OpenAtEnd() { gate.let(); }
};

TEST(KvTiers, are_not_waited_for_longer_than_computing_takes) {
  SlowStore::Gate gate;
  RigOptions options;
  options.kv_cache = "prefix";
  options.tiers = [&gate](const std::string&) {
    std::vector<std::unique_ptr<TierStore>> stores;
    stores.push_back(std::make_unique<SlowStore>(gate));
    return stores;
  };
  Rig rig(options);
  const OpenAtEnd at_end{gate};
  const Request request = greedy_request(tier_prompt(1, 41), 6);
  const RequestId id = rig.submit(request);
  for (int step = 0; step < 5; ++step) ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_TRUE(rig.sink(id)->samples().empty());
  rig.clock().advance_to(rig.clock().now_ns() + int64_t{11} * 1'000'000'000);
  rig.run();
  EXPECT_EQ(rig.result(id).ids(), oracle(options.model(), request, 0, options.context_tokens).ids);
  EXPECT_EQ(rig.tiers().totals().late, 1u);
}

TEST(KvTiers, are_read_once_more_where_others_took_what_the_cache_had_of_a_prompt) {
  SlowStore::Gate gate;
  RigOptions options;
  options.kv_cache = "prefix";
  options.block_tokens = 4;
  options.kv_tokens = 64;
  options.context_tokens = 64;
  options.tiers = [&gate](const std::string&) {
    std::vector<std::unique_ptr<TierStore>> stores;
    stores.push_back(
        std::make_unique<SlowStore>(gate, std::make_unique<HostStore>(uint64_t{1} << 24)));
    return stores;
  };
  Rig rig(options);
  const OpenAtEnd at_end{gate};
  gate.let();
  // The cache has room for one of them and the beginning of the other.
  const Request comes_back = greedy_request(tier_prompt(1, 41), 6);
  for (const Request& request : {comes_back, greedy_request(tier_prompt(2, 33), 3)}) {
    rig.submit(request);
    rig.run();
  }
  rig.tiers().settle();
  gate.let(false);
  // It grows while the other is sought, so that the cache loses more of it.
  const Request grows = greedy_request(tier_prompt(3, 3), 16);
  const RequestId other = rig.submit(grows);
  for (int step = 0; step < 2; ++step) ASSERT_TRUE(rig.engine().step().ok());
  const RequestId id = rig.submit(comes_back);
  for (int step = 0; step < 10; ++step) ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_EQ(rig.sink(id)->samples().size(), 0u);
  gate.let();
  rig.run();
  EXPECT_EQ(rig.result(id).ids(),
            oracle(options.model(), comes_back, 0, options.context_tokens).ids);
  EXPECT_EQ(rig.result(other).ids(), oracle(options.model(), grows, 0, options.context_tokens).ids);
  EXPECT_GT(rig.tiers().totals().found_tokens, 0u);
  EXPECT_EQ(rig.tiers().totals().late, 0u);
}

// So that no step of the others takes much longer.
TEST(KvTiers, come_up_in_parts_while_others_generate_and_at_once_where_none_do) {
  for (const bool recurrent : {false, true}) {
    MemoryDisk disk;
    RigOptions options = options_with_tiers(disk);
    options.recurrent = recurrent;
    const Request comes_back = greedy_request(tier_prompt(1, 241), 6);
    run_with_tiers(options, {comes_back.prompt});
    for (const bool others : {true, false}) {
      SCOPED_TRACE(testing::Message() << (recurrent ? "recurrent " : "") << others);
      Rig rig(options);
      const Request generates = greedy_request(tier_prompt(2, 40), 150);
      const RequestId other = others ? rig.submit(generates) : 0;
      for (int step = 0; others && step < 3; ++step) ASSERT_TRUE(rig.engine().step().ok());
      const RequestId id = rig.submit(comes_back);
      std::set<uint64_t> found;
      while (rig.sink(id)->samples().empty() && !rig.engine().idle()) {
        ASSERT_TRUE(rig.engine().step().ok());
        found.insert(rig.tiers().totals().found_tokens);
      }
      EXPECT_EQ(*found.rbegin(), 240u);
      found.erase(0);
      // A sequence goes on where a state is, and there is one at the prompt's end alone.
      EXPECT_EQ(found.size() > 1, others && !recurrent);
      rig.run();
      const auto expected = [&](const Request& request) {
        return oracle(options.model(), request, 0, options.context_tokens).ids;
      };
      EXPECT_EQ(rig.result(id).ids(), expected(comes_back));
      if (others) {
        EXPECT_EQ(rig.result(other).ids(), expected(generates));
      }
    }
  }
}

TEST(KvTiers, that_hold_states_alone_are_read_while_others_generate) {
  MemoryDisk disk;
  RigOptions options = options_with_tiers(disk);
  options.recurrent = true;
  options.attends = false;
  options.block_tokens = 16;
  const Request comes_back = greedy_request(tier_prompt(1, 99), 6);
  run_with_tiers(options, {comes_back.prompt});
  Rig rig(options);
  const RequestId other = rig.submit(greedy_request(tier_prompt(2, 10), 200));
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(rig.engine().step().ok());
  const RequestId id = rig.submit(comes_back);
  while (rig.sink(id)->samples().empty()) ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_LT(rig.result(other).ids().size(), 200u) << "it waited for the other";
  EXPECT_EQ(rig.tiers().totals().found_tokens, 96u);
  rig.run();
  EXPECT_EQ(rig.result(id).ids(),
            oracle(options.model(), comes_back, 0, options.context_tokens).ids);
}

TEST(KvTiers, let_others_run_while_one_is_waited_for_and_a_cancelled_one_go) {
  SlowStore::Gate gate;
  RigOptions options;
  options.kv_cache = "prefix";
  options.tiers = [&gate](const std::string&) {
    std::vector<std::unique_ptr<TierStore>> stores;
    stores.push_back(std::make_unique<SlowStore>(gate));
    return stores;
  };
  Rig rig(options);
  const OpenAtEnd at_end{gate};
  const Request brief =
      greedy_request(tier_prompt(2, 5), 30);  // less than a block: nothing to seek
  const RequestId first = rig.submit(brief);
  const RequestId waits = rig.submit(greedy_request(tier_prompt(1, 41), 6));
  for (int step = 0; step < 50; ++step) ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_EQ(rig.result(first).ids(), oracle(options.model(), brief, 0, options.context_tokens).ids);
  rig.engine().cancel(waits);
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_TRUE(rig.engine().idle());
  EXPECT_EQ(rig.sink(waits)->samples()[0].reason, FinishReason::cancelled);
}

}  // namespace
}  // namespace tenon
