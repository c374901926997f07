#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/attention/kv_case.h"
#include "tests/support/attention/kv_world.h"

namespace tenon {
namespace {

using test::tokens;
using test::Tokens;
using test::operator+;  // NOLINT(misc-unused-using-decls): the check overlooks operators

class Radix : public test::KvCase {
 protected:
  Radix() : KvCase("radix") {}
};

TEST_F(Radix, reuses_to_the_token_and_copies_the_block_in_which_sequences_part) {
  bind(4, 20);
  begin(1);
  compute(1, tokens(11));
  begin(2);
  const Tokens other = tokens(7) + tokens(4, 3);
  EXPECT_EQ(match(2, other).ready, 7u);
  EXPECT_EQ(match(2, other, 11).tokens_needed, 8u) << "one block is shared, two are new";
  EXPECT_EQ(compute(2, other), 7u);
  const std::vector<KvMove> made = moves();
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].from.block, table(1)[1]);
  EXPECT_EQ(made[0].to.block, table(2)[1]);
  EXPECT_EQ(made[0].tokens, 3u);
  EXPECT_EQ(table(1)[0], table(2)[0]);
}

TEST_F(Radix, leaves_exactly_one_token_of_a_prompt_that_it_knows) {
  bind(4, 20);
  serve(1, tokens(12));
  begin(2);
  EXPECT_EQ(compute(2, tokens(12)), 11u);
  EXPECT_EQ(moves().size(), 1u);
}

TEST_F(Radix, keeps_a_last_block_that_is_not_full) {
  bind(4, 20);
  serve(1, tokens(6));
  EXPECT_EQ(cached_blocks(), 2u);
  EXPECT_EQ(serve(2, tokens(6) + tokens(5, 1)), 6u);
}

TEST_F(Radix, finds_the_end_of_a_prompt_whose_sequence_writes_on) {
  bind(8, 20);
  begin(1);
  compute(1, tokens(13));
  begin(2);
  EXPECT_EQ(compute(2, tokens(13) + tokens(2, 1)), 13u);
  EXPECT_EQ(moves().size(), 1u);
  for (uint32_t known = 14; known <= 17; ++known) compute(1, tokens(known), known - 1);
  EXPECT_EQ(serve(3, tokens(17) + tokens(1, 5)), 16u) << "the block has been filled since";
  EXPECT_EQ(table(1).size(), 3u);
}

TEST_F(Radix, keeps_no_last_block_twice) {
  bind(4, 20);
  serve(1, tokens(6));
  serve(2, tokens(6));
  EXPECT_EQ(cached_blocks(), 2u);
  serve(3, tokens(7));
  EXPECT_EQ(cached_blocks(), 3u) << "one token more is news";
}

TEST_F(Radix, takes_the_sibling_with_most_in_common) {
  bind(8, 40);
  for (TokenId last = 0; last < 6; ++last) {
    Tokens branch = tokens(8) + tokens(6, 1);
    branch[8 + static_cast<size_t>(last)] = 3;
    serve(static_cast<SeqId>(last + 1), branch);
  }
  begin(20);
  EXPECT_EQ(match(20, tokens(8) + tokens(6, 1)).ready, 13u);
  begin(21);
  EXPECT_EQ(match(21, tokens(8) + tokens(3, 1) + tokens(5, 2)).ready, 11u);
  begin(22);
  EXPECT_EQ(match(22, tokens(9, 4)).ready, 0u);
}

TEST_F(Radix, never_shares_between_keys) {
  bind(4, 20);
  serve(1, tokens(7));
  CacheKey other;
  other.salt = 9;
  EXPECT_EQ(serve(2, tokens(7), other), 0u);
  EXPECT_EQ(serve(3, tokens(7), other), 6u);
}

TEST_F(Radix, evicts_leaves_first_and_of_them_the_one_not_used_for_longest) {
  bind(2, 6);
  serve(1, tokens(2) + tokens(2, 1));  // stem, leaf 1
  serve(2, tokens(2) + tokens(2, 2));  // leaf 2
  serve(3, tokens(2) + tokens(3, 1));  // the stem and leaf 1 again, and a last block
  begin(4);
  compute(4, tokens(6, 7));  // the two free blocks and one cached
  ASSERT_TRUE(release(4).ok());
  begin(5);
  EXPECT_EQ(match(5, tokens(2) + tokens(3, 1)).ready, 4u);
  begin(6);
  EXPECT_EQ(match(6, tokens(2) + tokens(3, 2)).ready, 2u) << "leaf 2 is gone, its stem is not";
}

TEST_F(Radix, counts_a_copied_block_as_used) {
  bind(2, 6);
  serve(1, tokens(3));  // its last block holds one token
  serve(2, tokens(4, 5));
  serve(3, tokens(3) + tokens(1, 1));  // copies that token
  begin(4);
  compute(4, tokens(6, 7));
  ASSERT_TRUE(release(4).ok());
  begin(5);
  EXPECT_GE(match(5, tokens(4)).ready, 2u);
}

TEST_F(Radix, promises_whole_blocks) {
  bind(4, 20);
  begin(1);
  grow(1, tokens(11));
  begin(2);
  EXPECT_EQ(match(2, tokens(11)).promised, 8u);
  ASSERT_TRUE(release(1).ok());
  EXPECT_EQ(match(2, tokens(11)).promised, 0u);
  EXPECT_EQ(cached_blocks(), 0u) << "nothing of it was computed";
}

TEST_F(Radix, keeps_the_last_block_of_a_fork_once_it_is_alone) {
  bind(4, 20);
  begin(1);
  compute(1, tokens(6));
  fork(2, 1, 6);
  ASSERT_TRUE(release(1).ok());
  EXPECT_EQ(cached_blocks(), 0u) << "the fork goes on writing into it";
  compute(2, tokens(7), 6);
  ASSERT_TRUE(release(2).ok());
  EXPECT_EQ(serve(3, tokens(7) + tokens(2, 1)), 7u);
}

TEST_F(Radix, brings_back_from_the_pool_more_than_it_finds) {
  bind(4, 6, 0, 6);
  begin(1);
  compute(1, tokens(14));
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  moves();
  next_step();
  begin(2);
  compute(2, tokens(24, 1));
  ASSERT_TRUE(release(2).ok());
  const KvGrant grant = grow(1, tokens(15));
  EXPECT_EQ(grant.reused, 14u);
  EXPECT_EQ(grant.restored, 14u);
}

TEST_F(Radix, shares_whole_blocks_alone_beside_recurrent_state) {
  bind({{.blocks = 20}, {.kind = KvKind::recurrent, .block_tokens = 1, .blocks = 12}});
  begin(1);
  compute(1, tokens(11));
  begin(2);
  const Tokens other = tokens(10) + tokens(4, 3);
  EXPECT_EQ(match(2, other).ready, 8u);
  EXPECT_EQ(compute(2, other), 8u);
  EXPECT_TRUE(moves().empty());
  EXPECT_EQ(table(1)[1], table(2)[1]);
  ASSERT_TRUE(release(1).ok());
  ASSERT_TRUE(release(2).ok());
  EXPECT_EQ(cached_blocks(), 3u) << "a last block that is not full is of no use to anybody";
}

class RadixWorld : public testing::TestWithParam<std::pair<uint64_t, bool>> {};

TEST_P(RadixWorld, lets_nobody_read_what_is_not_theirs) {
  const test::KvTestGroup scarce{.blocks = 20, .swap_blocks = 12};
  const test::KvTestGroup window{
      .dtype = DType::i8, .blocks = 16, .swap_blocks = 10, .window_tokens = 9};
  const test::KvWorldOptions worlds[] = {
      {},
      {.groups = {{.blocks = 17, .swap_blocks = 16}}},
      {.groups = {{.block_tokens = 1, .blocks = 66, .swap_blocks = 20}}},
      {.groups = {{.block_tokens = 8, .blocks = 14}}},
      {.groups = {scarce, window}},
      {.groups = {{.blocks = 17, .window_tokens = 7}, window}}};
  const auto [seed, plan_ahead] = GetParam();
  for (test::KvWorldOptions options : worlds) {
    options.plan_ahead = plan_ahead;
    TestHost host;
    PluginInstance<KVCacheManager> kv("radix", host);
    test::KvWorld world(*kv, options, seed);
    world.run();
    if (HasFailure()) return;
    EXPECT_GT(world.reused(), 100u);
    EXPECT_GT(world.copied_tokens(), 50u);
    EXPECT_EQ(world.ahead() > 50, plan_ahead);
    EXPECT_GT(world.paths(), 2u);
    if (options.groups[0].swap_blocks > 0) {
      EXPECT_GT(world.restored(), 0u);
    }
  }
}
// With states there is nothing to copy.
TEST_P(RadixWorld, lets_nobody_start_from_the_state_of_others) {
  const test::KvTestGroup states{
      .kind = KvKind::recurrent, .block_tokens = 1, .blocks = 40, .swap_blocks = 6};
  const auto [seed, plan_ahead] = GetParam();
  for (test::KvWorldOptions options :
       {test::KvWorldOptions{.groups = {states}},
        test::KvWorldOptions{.groups = {{.blocks = 40, .swap_blocks = 16}, states}}}) {
    options.plan_ahead = plan_ahead;
    TestHost host;
    const ResolvedFact block_tokens{"kv.block_tokens", "", 4};
    PluginInstance<KVCacheManager> kv("radix", host, {}, {&block_tokens, 1});
    test::KvWorld world(*kv, options, seed);
    world.run();
    if (HasFailure()) return;
    EXPECT_GT(world.reused(), 100u);
    EXPECT_EQ(world.ahead() > 50, plan_ahead);
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RadixWorld, testing::ValuesIn(test::kv_worlds(8)));

}  // namespace
}  // namespace tenon
