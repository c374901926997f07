#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/kv_cache.h>

#include <array>
#include <cstdlib>
#include <numeric>

#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

using testing::HasSubstr;

class Paged : public testing::Test {
 protected:
  void bind(uint32_t block_tokens, uint32_t blocks, uint32_t window = 0) {
    group_.window_tokens = window;
    shape_.group_count = 1;
    shape_.groups = &group_;
    geometry_ = {block_tokens, blocks, 8};
    const KvGeometry geometry{DType::f32, 256, 8, 1, &geometry_};
    ASSERT_TRUE(kv_->bind(shape_, geometry).ok());
    kv_->step_begin(1);
  }
  void begin(SeqId seq, SeqId parent = kNoSeq, uint32_t parent_tokens = 0) {
    const Status status = kv_->begin({seq, {}, 200, parent, parent_tokens});
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // Grants and computes `tokens` more.
  void compute(SeqId seq, uint32_t computed, uint32_t tokens) {
    KvGrant grant;
    ASSERT_TRUE(kv_->grow(seq, {}, computed, tokens, tokens, grant).ok());
    ASSERT_EQ(grant.granted, tokens);
    std::vector<uint32_t> kept(tokens);
    std::iota(kept.begin(), kept.end(), 0u);
    ASSERT_TRUE(kv_->resolve(seq, {}, computed, kept, computed + tokens).ok());
    expect_sound();
  }
  std::vector<BlockId> table(SeqId seq) {
    KvTableView view;
    EXPECT_TRUE(kv_->table(seq, 0, view).ok());
    return {view.blocks.begin(), view.blocks.end()};
  }
  std::vector<KvMove> moves() {
    std::array<KvMove, 16> room;
    KvMovesOut out{room, 0};
    EXPECT_TRUE(kv_->take_moves(out).ok());
    return {room.begin(), room.begin() + out.count};
  }
  uint64_t free_blocks() { return kv_->usage().free_tokens / geometry_.block_tokens; }
  void expect_sound() {
    const Status status = kv_->check();
    EXPECT_TRUE(status.ok()) << status.message();
  }

  TestHost host_;
  PluginInstance<KVCacheManager> kv_{"paged", host_};
  KvGroup group_;
  ModelShape shape_;
  KvGroupGeometry geometry_;
};

TEST_F(Paged, takes_blocks_as_tokens_need_them) {
  bind(16, 10);
  begin(1);
  compute(1, 0, 55);
  EXPECT_EQ(table(1).size(), 4u);
  EXPECT_EQ(kv_->usage().used_tokens, 55u);
  EXPECT_EQ(kv_->usage().reserved_tokens, 64u);
  compute(1, 55, 9);
  EXPECT_EQ(table(1).size(), 4u);
  compute(1, 64, 1);
  EXPECT_EQ(table(1).size(), 5u);
  EXPECT_EQ(kv_->usage().total_tokens, 160u);
}

TEST_F(Paged, grants_what_fits_between_at_least_and_at_most) {
  bind(4, 3);
  begin(1);
  KvGrant grant;
  ASSERT_TRUE(kv_->grow(1, {}, 0, 5, 40, grant).ok());
  EXPECT_EQ(grant.granted, 12u);
  EXPECT_EQ(free_blocks(), 0u);
}

TEST_F(Paged, changes_nothing_when_not_even_the_least_fits) {
  bind(4, 3);
  begin(1);
  begin(2);
  compute(1, 0, 8);
  KvGrant grant;
  const Status status = kv_->grow(2, {}, 0, 5, 8, grant);
  EXPECT_EQ(status.code(), StatusCode::out_of_kv);
  EXPECT_EQ(free_blocks(), 1u);
  EXPECT_TRUE(table(2).empty());
  expect_sound();
}

TEST_F(Paged, gives_slots_of_rejected_drafts_back) {
  bind(1, 20);
  begin(1);
  compute(1, 0, 5);
  KvGrant grant;
  ASSERT_TRUE(kv_->grow(1, {}, 5, 1, 5, grant).ok());
  EXPECT_EQ(free_blocks(), 10u);
  kv_->step_done(1);
  const uint32_t kept[] = {0, 1};
  ASSERT_TRUE(kv_->resolve(1, {}, 5, kept, 7).ok());
  EXPECT_EQ(free_blocks(), 13u);
  EXPECT_TRUE(moves().empty());
  expect_sound();
}

TEST_F(Paged, brings_kept_slots_of_a_tree_together) {
  bind(4, 20);
  begin(1);
  compute(1, 0, 6);
  KvGrant grant;
  ASSERT_TRUE(kv_->grow(1, {}, 6, 7, 7, grant).ok());
  const std::vector<BlockId> blocks = table(1);
  const uint32_t kept[] = {0, 3, 5};
  ASSERT_TRUE(kv_->resolve(1, {}, 6, kept, 9).ok());
  const std::vector<KvMove> made = moves();
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].from.block, blocks[2]);  // position 9 …
  EXPECT_EQ(made[0].from.token, 1u);
  EXPECT_EQ(made[0].to.block, blocks[1]);  // … to 7
  EXPECT_EQ(made[0].to.token, 3u);
  EXPECT_EQ(made[1].from.block, blocks[2]);  // 11 to 8
  EXPECT_EQ(made[1].from.token, 3u);
  EXPECT_EQ(made[1].to.block, blocks[2]);
  EXPECT_EQ(made[1].to.token, 0u);
  EXPECT_EQ(table(1).size(), 3u);
  expect_sound();
}

TEST_F(Paged, shares_a_fork_and_copies_before_the_first_write) {
  bind(4, 10);
  begin(1);
  compute(1, 0, 6);
  begin(2, 1, 6);
  EXPECT_EQ(table(1), table(2));
  EXPECT_EQ(free_blocks(), 8u);
  EXPECT_EQ(kv_->usage().used_tokens, 6u);
  const std::vector<BlockId> before = table(1);
  compute(1, 6, 1);
  const std::vector<KvMove> made = moves();
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].from.block, before[1]);
  EXPECT_EQ(made[0].to.block, table(1)[1]);
  EXPECT_EQ(made[0].tokens, 2u);
  EXPECT_EQ(table(2), before);
  EXPECT_NE(table(1)[1], before[1]);
  // The other one owns the original now and writes in place.
  compute(2, 6, 1);
  EXPECT_TRUE(moves().empty());
  EXPECT_EQ(table(2), before);
  EXPECT_EQ(kv_->usage().used_tokens, 4u + 3 + 3);
}

TEST_F(Paged, counts_the_copy_of_a_shared_block_in_what_is_needed) {
  bind(4, 10);
  begin(1);
  compute(1, 0, 6);
  begin(2, 1, 6);
  KvMatch match;
  ASSERT_TRUE(kv_->match(2, {}, 7, match).ok());
  EXPECT_EQ(match.tokens_needed, 4u);
  EXPECT_EQ(match.tokens_held, 8u);
  EXPECT_EQ(match.tokens_exclusive, 0u);
  ASSERT_TRUE(kv_->match(2, {}, 9, match).ok());
  EXPECT_EQ(match.tokens_needed, 8u);
}

TEST_F(Paged, cannot_copy_without_a_free_block) {
  bind(4, 2);
  begin(1);
  compute(1, 0, 6);
  begin(2, 1, 6);
  KvGrant grant;
  EXPECT_EQ(kv_->grow(2, {}, 6, 1, 1, grant).code(), StatusCode::out_of_kv);
  EXPECT_EQ(table(1), table(2));
  ASSERT_TRUE(kv_->release(1, KVCacheManager::Release::end).ok());
  EXPECT_TRUE(kv_->grow(2, {}, 6, 1, 1, grant).ok());
  EXPECT_TRUE(moves().empty());
}

TEST_F(Paged, copies_at_once_when_a_fork_begins_before_its_parent_ends) {
  bind(4, 10);
  begin(1);
  compute(1, 0, 7);
  begin(2, 1, 5);
  EXPECT_EQ(moves().size(), 1u);
  EXPECT_EQ(table(1)[0], table(2)[0]);
  EXPECT_NE(table(1)[1], table(2)[1]);
  EXPECT_EQ(kv_->usage().used_tokens, 4u + 3 + 1);
  expect_sound();
}

TEST_F(Paged, hands_a_released_block_out_only_after_the_last_step_planned_with_it) {
  bind(4, 2);
  begin(1);
  begin(2);
  kv_->step_begin(5);
  KvGrant grant;
  ASSERT_TRUE(kv_->grow(1, {}, 0, 8, 8, grant).ok());
  ASSERT_TRUE(kv_->release(1, KVCacheManager::Release::recompute).ok());
  EXPECT_EQ(kv_->grow(2, {}, 0, 1, 1, grant).code(), StatusCode::out_of_kv);
  kv_->step_done(4);
  EXPECT_EQ(kv_->grow(2, {}, 0, 1, 1, grant).code(), StatusCode::out_of_kv);
  expect_sound();
  kv_->step_done(5);
  EXPECT_TRUE(kv_->grow(2, {}, 0, 8, 8, grant).ok());
}

TEST_F(Paged, hands_a_released_block_out_at_once_when_its_steps_are_done) {
  bind(4, 2);
  begin(1);
  begin(2);
  compute(1, 0, 8);
  kv_->step_done(1);
  kv_->step_begin(2);
  ASSERT_TRUE(kv_->release(1, KVCacheManager::Release::recompute).ok());
  KvGrant grant;
  EXPECT_TRUE(kv_->grow(2, {}, 0, 8, 8, grant).ok());
}

TEST_F(Paged, frees_the_tail_of_a_sequence_first) {
  bind(1, 4);
  begin(1);
  compute(1, 0, 4);
  const std::vector<BlockId> blocks = table(1);
  kv_->step_done(1);
  ASSERT_TRUE(kv_->release(1, KVCacheManager::Release::recompute).ok());
  compute(1, 0, 1);
  // What was freed last is taken first: the head of the sequence.
  EXPECT_EQ(table(1)[0], blocks[0]);
}

TEST_F(Paged, gives_blocks_back_that_have_left_the_window) {
  constexpr std::pair<uint32_t, uint32_t> kCases[] = {{4, 0}, {5, 1}, {6, 1}, {7, 2}, {11, 4}};
  for (const auto& [computed, freed] : kCases) {
    bind(2, 20, 4);
    begin(computed);
    compute(computed, 0, computed);
    const std::vector<BlockId> blocks = table(computed);
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), kNoBlock), freed) << computed;
    for (uint32_t i = 0; i < freed; ++i) EXPECT_EQ(blocks[i], kNoBlock);
    ASSERT_TRUE(kv_->release(computed, KVCacheManager::Release::end).ok());
    expect_sound();
  }
}

TEST_F(Paged, refuses_calls_that_make_no_sense_and_stays_sound) {
  bind(4, 4);
  begin(1);
  compute(1, 0, 3);
  KvGrant grant;
  const uint32_t twice[] = {0, 0};
  EXPECT_THAT(std::string(kv_->grow(9, {}, 0, 1, 1, grant).message()), HasSubstr("no sequence 9"));
  EXPECT_FALSE(kv_->grow(1, {}, 2, 1, 1, grant).ok());      // not what it has
  EXPECT_FALSE(kv_->grow(1, {}, 3, 2, 1, grant).ok());      // at least more than at most
  EXPECT_FALSE(kv_->grow(1, {}, 3, 198, 200, grant).ok());  // beyond its limit
  EXPECT_FALSE(kv_->resolve(1, {}, 3, twice, 5).ok());
  EXPECT_FALSE(kv_->begin({1, {}, 10, kNoSeq, 0}).ok());
  EXPECT_FALSE(kv_->begin({2, {}, 10, 1, 4}).ok());  // the parent has 3
  EXPECT_FALSE(kv_->begin({2, {}, 10, 7, 1}).ok());
  EXPECT_EQ(kv_->release(1, KVCacheManager::Release::swap).code(), StatusCode::unsupported);
  KvTableView view;
  EXPECT_FALSE(kv_->table(1, 3, view).ok());
  expect_sound();
}

}  // namespace
}  // namespace tenon
