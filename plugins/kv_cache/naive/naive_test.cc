#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/kv_cache.h>

#include <array>
#include <cstdlib>

#include "tests/support/attention/kv_world.h"
#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

using testing::HasSubstr;

class Naive : public testing::Test {
 protected:
  Status bind(uint32_t block_tokens, uint32_t blocks, uint32_t swap_blocks = 0) {
    shape_.group_count = 1;
    shape_.groups = &group_;
    geometry_ = {DType::f32, block_tokens, blocks, 8, swap_blocks};
    return kv_->bind(shape_, {64, 8, 1, &geometry_});
  }
  std::vector<KvMove> moves() {
    std::array<KvMove, 16> room;
    KvMovesOut out{room, 0};
    EXPECT_TRUE(kv_->take_moves(out).ok());
    return {room.begin(), room.begin() + out.count};
  }

  TestHost host_;
  PluginInstance<KVCacheManager> kv_{"naive", host_};
  KvGroup group_;
  ModelShape shape_;
  KvGroupGeometry geometry_;
};

TEST_F(Naive, needs_blocks_as_long_as_the_context) {
  EXPECT_EQ(bind(16, 4).message(),
            "KV group 0 has blocks of 16 tokens – kv_cache 'naive' needs one block to hold the "
            "context of 64");
  EXPECT_THAT(std::string(bind(64, 0).message()), HasSubstr("KV group 0 has no blocks"));
}

TEST_F(Naive, reserves_a_whole_region_for_the_first_token) {
  ASSERT_TRUE(bind(64, 2).ok());
  ASSERT_TRUE(kv_->begin({1, {}, 64, kNoSeq, 0}).ok());
  EXPECT_EQ(test::usage(*kv_).reserved_tokens, 0u);
  KvGrant grant;
  ASSERT_TRUE(test::grow(*kv_, 1, {}, 0, 3, 3, grant).ok());
  const uint32_t kept[] = {0, 1, 2};
  ASSERT_TRUE(test::resolve(*kv_, 1, {}, 0, kept, 3).ok());
  EXPECT_EQ(test::usage(*kv_).reserved_tokens, 64u);
  EXPECT_EQ(test::usage(*kv_).used_tokens, 3u);
  EXPECT_EQ(test::usage(*kv_).free_tokens, 64u);
  EXPECT_TRUE(kv_->check().ok());
}

TEST_F(Naive, has_no_region_for_one_too_many) {
  ASSERT_TRUE(bind(64, 1).ok());
  KvGrant grant;
  ASSERT_TRUE(kv_->begin({1, {}, 64, kNoSeq, 0}).ok());
  ASSERT_TRUE(kv_->begin({2, {}, 64, kNoSeq, 0}).ok());
  ASSERT_TRUE(test::grow(*kv_, 1, {}, 0, 1, 1, grant).ok());
  EXPECT_EQ(test::grow(*kv_, 2, {}, 0, 1, 1, grant).code(), StatusCode::out_of_kv);
  ASSERT_TRUE(kv_->release(1, ReleaseHow::end).ok());
  EXPECT_TRUE(test::grow(*kv_, 2, {}, 0, 1, 1, grant).ok());
}

TEST_F(Naive, copies_for_a_fork) {
  ASSERT_TRUE(bind(64, 2).ok());
  KvGrant grant;
  ASSERT_TRUE(kv_->begin({1, {}, 64, kNoSeq, 0}).ok());
  ASSERT_TRUE(test::grow(*kv_, 1, {}, 0, 2, 2, grant).ok());
  const uint32_t kept[] = {0, 1};
  ASSERT_TRUE(test::resolve(*kv_, 1, {}, 0, kept, 2).ok());
  ASSERT_TRUE(kv_->begin({2, {}, 64, 1, 2}).ok());
  const std::vector<KvMove> made = moves();
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].tokens, 2u);
  EXPECT_NE(made[0].from.block, made[0].to.block);
  EXPECT_EQ(test::usage(*kv_).used_tokens, 4u);
  // No region is left for another: nothing has begun then.
  EXPECT_EQ(kv_->begin({3, {}, 64, 1, 2}).code(), StatusCode::out_of_kv);
  EXPECT_FALSE(kv_->release(3, ReleaseHow::end).ok());
  EXPECT_TRUE(kv_->check().ok());
}

TEST_F(Naive, copies_the_state_of_a_fork) {
  const KvGroup groups[] = {{}, {.kind = KvKind::recurrent}};
  const KvGroupGeometry sizes[] = {{DType::f32, 64, 2, 8, 0}, {DType::u8, 1, 4, 8, 0}};
  shape_.group_count = 2;
  shape_.groups = groups;
  ASSERT_TRUE(kv_->bind(shape_, {64, 8, 2, sizes}).ok());
  KvGrant grant;
  ASSERT_TRUE(kv_->begin({1, {}, 64, kNoSeq, 0}).ok());
  ASSERT_TRUE(test::grow(*kv_, 1, {}, 0, 1, 1, grant).ok());
  const uint32_t kept[] = {0};
  ASSERT_TRUE(test::resolve(*kv_, 1, {}, 0, kept, 1).ok());
  ASSERT_TRUE(kv_->begin({2, {}, 64, 1, 1}).ok());
  const std::vector<KvMove> made = moves();
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[1].group, 1u);
  EXPECT_NE(made[1].from.block, made[1].to.block);
  EXPECT_TRUE(kv_->check().ok());
}

TEST_F(Naive, brings_kept_slots_of_a_tree_together) {
  ASSERT_TRUE(bind(64, 1).ok());
  KvGrant grant;
  ASSERT_TRUE(kv_->begin({1, {}, 64, kNoSeq, 0}).ok());
  ASSERT_TRUE(test::grow(*kv_, 1, {}, 0, 5, 5, grant).ok());
  const uint32_t kept[] = {0, 2, 4};
  ASSERT_TRUE(test::resolve(*kv_, 1, {}, 0, kept, 3).ok());
  const std::vector<KvMove> made = moves();
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].from.token, 2u);
  EXPECT_EQ(made[0].to.token, 1u);
  EXPECT_EQ(made[1].from.token, 4u);
  EXPECT_EQ(made[1].to.token, 2u);
}

TEST_F(Naive, swaps_what_a_region_holds) {
  ASSERT_TRUE(bind(64, 1, 1).ok());
  KvGrant grant;
  ASSERT_TRUE(kv_->begin({1, {}, 64, kNoSeq, 0}).ok());
  ASSERT_TRUE(test::grow(*kv_, 1, {}, 0, 2, 2, grant).ok());
  const uint32_t kept[] = {0, 1};
  ASSERT_TRUE(test::resolve(*kv_, 1, {}, 0, kept, 2).ok());
  ASSERT_TRUE(kv_->release(1, ReleaseHow::swap).ok());
  EXPECT_EQ(moves().at(0).tokens, 2u);
  EXPECT_EQ(test::usage(*kv_).free_tokens, 64u);
  ASSERT_TRUE(test::grow(*kv_, 1, {}, 0, 1, 1, grant).ok());
  EXPECT_EQ(grant.restored, 2u);
  EXPECT_EQ(moves().at(0).from.tier, KvTier::swap);
}

TEST(NaiveWorld, lets_nobody_read_what_is_not_theirs) {
  const test::KvTestGroup regions{.block_tokens = 64, .blocks = 6, .swap_blocks = 2};
  const test::KvTestGroup longer{.block_tokens = 80, .blocks = 5, .swap_blocks = 3};
  const test::KvTestGroup states{
      .kind = KvKind::recurrent, .block_tokens = 1, .blocks = 20, .swap_blocks = 2};
  for (const auto& [seed, plan_ahead] : test::kv_worlds(5)) {
    for (const auto& groups : std::vector<std::vector<test::KvTestGroup>>{
             {regions}, {regions, longer}, {regions, states}}) {
      TestHost host;
      PluginInstance<KVCacheManager> kv("naive", host);
      test::KvWorld world(*kv, {.groups = groups, .plan_ahead = plan_ahead}, seed);
      world.run();
      if (testing::Test::HasFailure()) return;
      EXPECT_GT(world.restored(), 15u);
      EXPECT_EQ(world.ahead() > 50, plan_ahead);
      EXPECT_EQ(world.paths() > 2, groups.back().kind != KvKind::recurrent);
    }
  }
}

}  // namespace
}  // namespace tenon
