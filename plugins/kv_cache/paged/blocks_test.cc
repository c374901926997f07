// The parts that managers over blocks are made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/sdk/kv_cache/block_pool.h>
#include <tenon/sdk/kv_cache/sequence_map.h>

#include <map>
#include <vector>

namespace tenon::sdk {
namespace {

using testing::HasSubstr;

std::vector<BlockId> take_all(BlockPool& pool, uint32_t count) {
  std::vector<BlockId> taken;
  for (uint32_t i = 0; i < count; ++i) taken.push_back(pool.take());
  return taken;
}
void expect_sound(const BlockPool& pool, const std::vector<uint32_t>& references) {
  const Status status = pool.check(references);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(BlockPool, hands_out_the_block_freed_last) {
  BlockPool pool;
  pool.reset(4);
  EXPECT_EQ(take_all(pool, 3), (std::vector<BlockId>{0, 1, 2}));
  pool.drop(1, 0);
  EXPECT_EQ(pool.free_count(), 2u);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 3);
  expect_sound(pool, {1, 1, 1, 1});
}

TEST(BlockPool, evicts_kept_blocks_in_the_order_in_which_they_were_given_back) {
  BlockPool pool;
  pool.reset(3);
  take_all(pool, 3);
  for (BlockId block : {0, 1, 2}) pool.keep(block, 1, static_cast<uint32_t>(block));
  for (BlockId block : {2, 0, 1}) pool.drop(block, 0);
  EXPECT_EQ(pool.free_count(), 0u);
  EXPECT_EQ(pool.available(), 3u);
  pool.find(2);  // somebody wants it again, and gives it back last
  pool.drop(2, 0);
  EXPECT_EQ(pool.evict(), 0);
  EXPECT_EQ(pool.evict(), 1);
  EXPECT_EQ(pool.evict(), 2);
  EXPECT_FALSE(pool.kept(2));
  expect_sound(pool, {0, 0, 0});
}

TEST(BlockPool, counts_a_look_as_a_use) {
  BlockPool pool;
  pool.reset(2);
  take_all(pool, 2);
  for (BlockId block : {0, 1}) {
    pool.keep(block, 1, 0);
    pool.drop(block, 0);
  }
  pool.touch(0);
  EXPECT_EQ(pool.evict(), 1);
}

TEST(BlockPool, finds_a_block_that_waits_for_a_step) {
  BlockPool pool;
  pool.reset(2);
  pool.take();
  pool.keep(0, 1, 0);
  pool.drop(0, 7);
  EXPECT_EQ(pool.parked_count(), 1u);
  EXPECT_EQ(pool.available(), 1u);
  pool.find(0);
  pool.step_done(7);
  expect_sound(pool, {1, 0});
  pool.drop(0, 8);
  pool.drop(pool.take(), 0);
  pool.step_done(7);
  EXPECT_EQ(pool.cached_count(), 0u);
  pool.step_done(8);
  EXPECT_EQ(pool.cached_count(), 1u);
  expect_sound(pool, {0, 0});
}

TEST(BlockPool, notices_counts_that_are_wrong) {
  BlockPool pool;
  pool.reset(2);
  pool.take();
  EXPECT_THAT(std::string(pool.check({0, 0}).message()),
              HasSubstr("block 0 has 1 references counted and 0 in tables"));
}

// Keys of any order, against a plain sort.
TEST(BlockPool, evicts_by_rank_however_blocks_come_and_go) {
  for (const EvictionOrder order : {EvictionOrder::lru, EvictionOrder::lfu, EvictionOrder::fifo}) {
    BlockPool pool;
    pool.reset(64, order);
    struct Known {
      uint64_t finds = 0, used_at = 0, owner = 0, depth = 0;
      bool cached = false;
    };
    std::vector<Known> known(64);
    uint64_t clock = 0, state = 9;
    take_all(pool, 64);
    const auto give_back = [&](BlockId block) {
      pool.drop(block, 0);
      known[static_cast<size_t>(block)].cached = true;
      known[static_cast<size_t>(block)].used_at = ++clock;
    };
    for (BlockId block = 63; block >= 0; --block) {
      Known& one = known[static_cast<size_t>(block)];
      one.owner = static_cast<uint64_t>(block * 5 % 7);
      one.depth = static_cast<uint64_t>(block % 9);
      pool.keep(block, one.owner, static_cast<uint32_t>(one.depth));
      give_back(block);
    }
    for (int i = 0; i < 200; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const auto block = static_cast<BlockId>((state >> 33) % 64);
      pool.find(block);
      ++known[static_cast<size_t>(block)].finds;
      give_back(block);
      expect_sound(pool, std::vector<uint32_t>(64, 0));
    }
    const auto rank = [&](BlockId block) {
      const Known& one = known[static_cast<size_t>(block)];
      if (order == EvictionOrder::lru) return std::pair{one.used_at, uint64_t{0}};
      if (order == EvictionOrder::lfu) return std::pair{one.finds, one.used_at};
      return std::pair{one.owner, uint64_t{100} - one.depth};
    };
    for (BlockId last = pool.evict(); pool.cached_count() > 0;) {
      const BlockId next = pool.evict();
      EXPECT_LE(rank(last), rank(next));
      last = next;
    }
  }
}

TEST(SequenceMap, is_as_a_map_is) {
  SequenceMap map;
  std::map<SeqId, uint32_t> expected;
  uint64_t state = 3;
  const auto below = [&state](uint32_t bound) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>((state >> 33) % bound);
  };
  for (uint32_t i = 0; i < 20000; ++i) {
    // Many share their low bits.
    const SeqId seq = below(3) == 0 ? below(40) * 64 : below(300);
    EXPECT_EQ(map.find(seq), expected.contains(seq) ? expected[seq] : SequenceMap::kNone);
    if (expected.contains(seq)) {
      map.erase(seq);
      expected.erase(seq);
    } else {
      map.insert(seq, i);
      expected[seq] = i;
    }
    ASSERT_EQ(map.size(), expected.size());
  }
  for (const auto& [seq, number] : expected) EXPECT_EQ(map.find(seq), number);
  EXPECT_EQ(map.find(kNoSeq), SequenceMap::kNone);
}

}  // namespace
}  // namespace tenon::sdk
