#include "core/tiers/tiers.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/tiers/disk_store.h"
#include "core/tiers/host_store.h"
#include "tests/support/models/memory_files.h"

namespace tenon {
namespace {

constexpr uint64_t kBytes = 64;

TierWorld world(bool attends, bool recurs) {
  TierWorld made;
  made.text = "world";
  if (attends) made.groups = {{0, kBytes, false}, {1, kBytes, false}};
  if (recurs) made.groups.push_back({2, kBytes, true});
  return made;
}

std::vector<ContentDigest> contents(uint32_t blocks) {
  std::vector<ContentDigest> made = {root_digest("world", 0, "")};
  for (uint32_t i = 0; i < blocks; ++i) {
    const std::vector<TokenId> tokens = {static_cast<TokenId>(i)};
    made.push_back(next_digest(made.back(), tokens));
  }
  made.erase(made.begin());
  return made;
}

KvBlob blob(uint32_t number) {
  return KvBlob(kBytes, static_cast<std::byte>(number));
}

std::unique_ptr<Tiers> host_tier(TierWorld of, uint64_t budget = 1 << 20,
                                 uint64_t quota = 1 << 20) {
  std::vector<std::unique_ptr<TierStore>> stores;
  stores.push_back(std::make_unique<HostStore>(quota));
  return std::make_unique<Tiers>(std::move(of), std::move(stores), budget);
}

std::unique_ptr<FoundKv> found(Tiers& tiers, uint32_t first, uint32_t blocks) {
  const uint64_t id = tiers.seek(first, contents(blocks));
  tiers.settle();
  return tiers.take(id);
}

void put_blocks(Tiers& tiers, uint32_t first, uint32_t end) {
  const std::vector<ContentDigest> all = contents(end);
  for (uint32_t i = first; i < end; ++i) {
    EXPECT_TRUE(tiers.put({all[i], 0}, blob(i)));
    EXPECT_TRUE(tiers.put({all[i], 1}, blob(100 + i)));
  }
  tiers.settle();
}

TEST(Tiers, find_the_longest_beginning_that_has_no_hole) {
  const auto tiers = host_tier(world(true, false));
  put_blocks(*tiers, 0, 5);
  put_blocks(*tiers, 6, 8);
  const auto all = found(*tiers, 2, 8);
  EXPECT_EQ(all->first, 2u);
  EXPECT_EQ(all->end, 5u);
  ASSERT_EQ(all->blocks.size(), 3u);
  EXPECT_EQ(all->blocks[1][0], blob(3));
  EXPECT_EQ(all->blocks[1][1], blob(103));
  EXPECT_EQ(found(*tiers, 5, 8)->end, 5u);
  EXPECT_EQ(found(*tiers, 6, 8)->end, 8u);
}

TEST(Tiers, need_every_group_of_a_block) {
  const auto tiers = host_tier(world(true, false));
  put_blocks(*tiers, 0, 2);
  EXPECT_TRUE(tiers->put({contents(3)[2], 0}, blob(2)));
  tiers->settle();
  EXPECT_EQ(found(*tiers, 0, 3)->end, 2u);
}

TEST(Tiers, end_where_a_state_is_and_bring_those_on_the_way) {
  const auto tiers = host_tier(world(true, true));
  put_blocks(*tiers, 0, 6);
  EXPECT_EQ(found(*tiers, 0, 6)->end, 0u);
  EXPECT_TRUE(tiers->put({contents(2)[1], 2}, blob(50)));
  EXPECT_TRUE(tiers->put({contents(4)[3], 2}, blob(51)));
  tiers->settle();
  const auto all = found(*tiers, 0, 6);
  EXPECT_EQ(all->end, 4u);
  ASSERT_EQ(all->states.size(), 2u);
  EXPECT_EQ(all->states.at(2)[2], blob(50));
  EXPECT_EQ(all->states.at(4)[2], blob(51));
}

TEST(Tiers, find_states_alone_where_no_layer_attends) {
  const auto tiers = host_tier(world(false, true));
  EXPECT_TRUE(tiers->put({contents(3)[2], 2}, blob(7)));
  tiers->settle();
  EXPECT_EQ(found(*tiers, 0, 9)->end, 3u);
}

TEST(Tiers, read_no_more_than_is_allowed_while_others_generate) {
  const auto tiers = host_tier(world(true, false));
  put_blocks(*tiers, 0, 4);
  const auto read_bytes = [&] { return tiers->totals().stores[0].read_bytes; };
  tiers->allow(kBytes + 1);
  const uint64_t id = tiers->seek(0, contents(4));
  while (read_bytes() < 2 * kBytes) std::this_thread::yield();
  // What goes down meanwhile does not wait for it.
  EXPECT_TRUE(tiers->put({contents(9)[8], 0}, blob(8)));
  while (tiers->totals().stores[0].written_bytes < 9 * kBytes) std::this_thread::yield();
  EXPECT_FALSE(tiers->wait_for_any(std::chrono::milliseconds(20)));
  EXPECT_EQ(read_bytes(), 2 * kBytes);
  tiers->allow(kBytes + 1);
  while (read_bytes() < 3 * kBytes) std::this_thread::yield();
  tiers->allow_all();
  EXPECT_TRUE(tiers->wait_for_any(std::chrono::minutes(1)));
  EXPECT_EQ(tiers->take(id)->end, 4u);
}

TEST(Tiers, that_read_slowly_forget_what_is_abandoned_and_end) {
  const auto tiers = host_tier(world(true, false));
  put_blocks(*tiers, 0, 4);
  tiers->allow(1);
  tiers->abandon(tiers->seek(0, contents(4)));
  const uint64_t id = tiers->seek(0, contents(4));
  tiers->allow(1);
  EXPECT_EQ(tiers->take(id), nullptr);
}

TEST(Tiers, have_no_more_under_way_than_their_budget) {
  const auto tiers = host_tier(world(true, false), 4 * kBytes);
  put_blocks(*tiers, 0, 2);
  put_blocks(*tiers, 2, 4);
  const uint64_t id = tiers->seek(0, contents(4));
  tiers->settle();
  EXPECT_FALSE(tiers->put({contents(5)[4], 0}, blob(4))) << "the answer takes all of it";
  EXPECT_EQ(tiers->totals().refused_blocks, 1u);
  EXPECT_EQ(tiers->take(id)->end, 2u);
  EXPECT_TRUE(tiers->put({contents(5)[4], 0}, blob(4)));
}

TEST(Tiers, give_the_budget_back_of_what_nobody_wants) {
  const auto tiers = host_tier(world(true, false), 4 * kBytes);
  put_blocks(*tiers, 0, 2);
  const uint64_t id = tiers->seek(0, contents(2));
  tiers->settle();
  tiers->abandon(id);
  EXPECT_EQ(tiers->take(id), nullptr);
  put_blocks(*tiers, 2, 4);
}

TEST(Tiers, know_what_was_put_until_it_is_missed) {
  const auto tiers = host_tier(world(true, false), 1 << 20, 6 * kBytes);
  put_blocks(*tiers, 0, 3);
  EXPECT_TRUE(tiers->has({contents(1)[0], 0}));
  put_blocks(*tiers, 3, 6);
  EXPECT_EQ(found(*tiers, 0, 3)->end, 0u);
  EXPECT_FALSE(tiers->has({contents(1)[0], 0})) << "it may be put again";
}

TEST(Tiers, write_down_everything_before_they_end_and_lift_what_they_find) {
  MemoryDisk disk;
  const auto two_tiers = [&disk] {
    std::vector<std::unique_ptr<TierStore>> stores;
    stores.push_back(std::make_unique<HostStore>(1 << 20));
    stores.push_back(
        *DiskStore::open("/kv", 1 << 20, "world", std::make_unique<MemoryFiles>(disk)));
    return std::make_unique<Tiers>(world(true, false), std::move(stores), 1 << 20);
  };
  {
    const auto yesterday = two_tiers();
    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(yesterday->put({contents(4)[i], 0}, blob(i)));
      EXPECT_TRUE(yesterday->put({contents(4)[i], 1}, blob(i)));
    }
  }
  const auto today = two_tiers();
  EXPECT_EQ(found(*today, 0, 4)->end, 4u);
  disk.files.clear();
  EXPECT_EQ(found(*today, 0, 4)->end, 4u) << "it lies in memory as well now";
  const TierTotals totals = today->totals();
  EXPECT_EQ(totals.stores[0].kind, "host");
  EXPECT_EQ(totals.stores[0].read_bytes, 8 * kBytes);
  EXPECT_EQ(totals.stores[1].kind, "disk");
  EXPECT_EQ(totals.stores[1].read_bytes, 8 * kBytes);
}

}  // namespace
}  // namespace tenon
