// Sequences that leave for the pool in host memory, and come back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/kv_cache.h>

#include "tests/support/attention/kv_case.h"
#include "tests/support/attention/kv_world.h"

namespace tenon {
namespace {

using test::tokens;

class PagedSwapping : public test::KvCase {
 protected:
  PagedSwapping() : KvCase("paged") {}
};

TEST_F(PagedSwapping, has_nothing_to_swap_to_without_a_pool) {
  bind(4, 4);
  begin(1);
  compute(1, 0, 3);
  EXPECT_EQ(release(1, ReleaseHow::swap).code(), StatusCode::unsupported);
  EXPECT_EQ(table(1).size(), 1u);
}

TEST_F(PagedSwapping, moves_what_is_computed_out_and_back_in) {
  bind(4, 6, 0, 6);
  begin(1);
  compute(1, 0, 10);
  const std::vector<BlockId> before = table(1);
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  EXPECT_EQ(free_blocks(), 6u) << "at once: the moves come before whatever is written there";
  EXPECT_EQ(usage().swapped_tokens, 10u);
  EXPECT_EQ(usage().swap_total_tokens, 24u);
  const std::vector<KvMove> out = moves();
  ASSERT_EQ(out.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(out[i].from.block, before[i]);
    EXPECT_EQ(out[i].from.tier, KvTier::cache);
    EXPECT_EQ(out[i].to.tier, KvTier::swap);
    EXPECT_EQ(out[i].tokens, i < 2 ? 4u : 2u);
  }
  next_step();
  EXPECT_EQ(match(1, tokens(11)).ready, 10u);
  EXPECT_EQ(match(1, tokens(11), 11).tokens_needed, 12u);
  const KvGrant grant = grow(1, tokens(11));
  EXPECT_EQ(grant.reused, 10u);
  EXPECT_EQ(grant.restored, 10u);
  EXPECT_EQ(grant.granted, 1u);
  const std::vector<KvMove> in = moves();
  ASSERT_EQ(in.size(), 3u);
  EXPECT_EQ(in[2].from.block, out[2].to.block);
  EXPECT_EQ(in[2].to.block, table(1)[2]);
  EXPECT_EQ(in[2].tokens, 2u);
  resolve(1, tokens(11), 10, 11);
  EXPECT_EQ(usage().swapped_tokens, 0u);
  next_step();
  EXPECT_EQ(host_.counters["swapped_out_blocks"], 3u);
  EXPECT_EQ(host_.counters["swapped_in_blocks"], 3u);
}

TEST_F(PagedSwapping, refuses_to_swap_into_a_full_pool_and_changes_nothing) {
  bind(4, 8, 0, 2);
  begin(1);
  compute(1, 0, 9);
  const std::vector<BlockId> before = table(1);
  EXPECT_EQ(release(1, ReleaseHow::swap).code(), StatusCode::out_of_kv);
  EXPECT_EQ(table(1), before);
  EXPECT_TRUE(moves().empty());
  begin(2);
  compute(2, 0, 8);
  EXPECT_TRUE(release(2, ReleaseHow::swap).ok());
}

TEST_F(PagedSwapping, gives_the_pool_back_when_a_swapped_sequence_ends) {
  bind(4, 4, 0, 2);
  begin(1);
  compute(1, 0, 8);
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  begin(2);
  compute(2, 0, 8);
  EXPECT_EQ(release(2, ReleaseHow::swap).code(), StatusCode::out_of_kv);
  ASSERT_TRUE(release(1).ok());
  next_step();
  EXPECT_EQ(usage().swapped_tokens, 0u);
  EXPECT_TRUE(release(2, ReleaseHow::swap).ok());
}

TEST_F(PagedSwapping, keeps_a_block_of_the_pool_until_the_step_that_reads_it_is_done) {
  bind(4, 8, 0, 1);
  begin(1);
  compute(1, 0, 4);
  begin(2);
  compute(2, 0, 4);
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  next_step();
  grow(1, tokens(5));
  resolve(1, tokens(5), 4, 5);  // the copy back may still be under way
  EXPECT_EQ(release(2, ReleaseHow::swap).code(), StatusCode::out_of_kv);
  next_step();
  EXPECT_TRUE(release(2, ReleaseHow::swap).ok());
}

TEST_F(PagedSwapping, still_has_its_copy_when_a_plan_that_brought_it_back_fails) {
  bind(4, 4, 0, 4);
  begin(1);
  compute(1, 0, 7);
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  next_step();
  moves();
  grow(1, tokens(8));
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  EXPECT_EQ(moves().size(), 2u) << "those of the plan; nothing is copied out again";
  next_step();
  EXPECT_EQ(free_blocks(), 4u);
  EXPECT_EQ(grow(1, tokens(8)).restored, 7u);
  resolve(1, tokens(8), 7, 8);
}

TEST_F(PagedSwapping, swaps_what_a_window_has_left) {
  bind(2, 8, 4, 8);
  begin(1);
  compute(1, 0, 7);
  ASSERT_EQ(gone(1), 2u);
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  EXPECT_EQ(moves().size(), 2u);
  next_step();
  EXPECT_EQ(grow(1, tokens(8)).reused, 7u);
  EXPECT_EQ(gone(1), 2u);
  EXPECT_EQ(moves().size(), 2u);
}

}  // namespace
}  // namespace tenon
