#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/kv_cache.h>

#include "tests/support/attention/kv_case.h"
#include "tests/support/attention/kv_world.h"

namespace tenon {
namespace {

using test::tokens;
using testing::HasSubstr;

class Paged : public test::KvCase {
 protected:
  Paged() : KvCase("paged") {}
};

TEST_F(Paged, takes_blocks_as_tokens_need_them) {
  bind(16, 10);
  begin(1);
  compute(1, 0, 55);
  EXPECT_EQ(table(1).size(), 4u);
  EXPECT_EQ(usage().used_tokens, 55u);
  EXPECT_EQ(usage().reserved_tokens, 64u);
  compute(1, 55, 9);
  EXPECT_EQ(table(1).size(), 4u);
  compute(1, 64, 1);
  EXPECT_EQ(table(1).size(), 5u);
  EXPECT_EQ(usage().total_tokens, 160u);
}

TEST_F(Paged, grants_what_fits_between_at_least_and_at_most) {
  bind(4, 3);
  begin(1);
  KvGrant grant;
  ASSERT_TRUE(test::grow(kv(), 1, {}, 0, 5, 40, grant).ok());
  EXPECT_EQ(grant.granted, 12u);
  EXPECT_EQ(free_blocks(), 0u);
}

TEST_F(Paged, changes_nothing_when_not_even_the_least_fits) {
  bind(4, 3);
  begin(1);
  begin(2);
  compute(1, 0, 8);
  KvGrant grant;
  const Status status = test::grow(kv(), 2, {}, 0, 5, 8, grant);
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
  ASSERT_TRUE(test::grow(kv(), 1, {}, 5, 1, 5, grant).ok());
  EXPECT_EQ(free_blocks(), 10u);
  ASSERT_TRUE(kv().step_done(step_).ok());
  const uint32_t kept[] = {0, 1};
  ASSERT_TRUE(test::resolve(kv(), 1, {}, 5, kept, 7).ok());
  EXPECT_EQ(free_blocks(), 13u);
  EXPECT_TRUE(moves().empty());
  expect_sound();
}

TEST_F(Paged, brings_kept_slots_of_a_tree_together) {
  bind(4, 20);
  begin(1);
  compute(1, 0, 6);
  KvGrant grant;
  ASSERT_TRUE(test::grow(kv(), 1, {}, 6, 7, 7, grant).ok());
  const std::vector<BlockId> blocks = table(1);
  const uint32_t kept[] = {0, 3, 5};
  ASSERT_TRUE(test::resolve(kv(), 1, {}, 6, kept, 9).ok());
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
  fork(2, 1, 6);
  EXPECT_EQ(table(1), table(2));
  EXPECT_EQ(free_blocks(), 8u);
  EXPECT_EQ(usage().used_tokens, 6u);
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
  EXPECT_EQ(usage().used_tokens, 4u + 3 + 3);
}

TEST_F(Paged, counts_the_copy_of_a_shared_block_in_what_is_needed) {
  bind(4, 10);
  begin(1);
  compute(1, 0, 6);
  fork(2, 1, 6);
  KvMatch match;
  ASSERT_TRUE(kv().match(2, {}, 7, match).ok());
  EXPECT_EQ(match.tokens_needed, 4u);
  EXPECT_EQ(match.tokens_held, 8u);
  EXPECT_EQ(match.tokens_exclusive, 0u);
  ASSERT_TRUE(kv().match(2, {}, 9, match).ok());
  EXPECT_EQ(match.tokens_needed, 8u);
}

TEST_F(Paged, cannot_copy_without_a_free_block) {
  bind(4, 2);
  begin(1);
  compute(1, 0, 6);
  fork(2, 1, 6);
  KvGrant grant;
  EXPECT_EQ(test::grow(kv(), 2, {}, 6, 1, 1, grant).code(), StatusCode::out_of_kv);
  EXPECT_EQ(table(1), table(2));
  ASSERT_TRUE(kv().release(1, ReleaseHow::end).ok());
  EXPECT_TRUE(test::grow(kv(), 2, {}, 6, 1, 1, grant).ok());
  EXPECT_TRUE(moves().empty());
}

TEST_F(Paged, copies_at_once_when_a_fork_begins_before_its_parent_ends) {
  bind(4, 10);
  begin(1);
  compute(1, 0, 7);
  fork(2, 1, 5);
  EXPECT_EQ(moves().size(), 1u);
  EXPECT_EQ(table(1)[0], table(2)[0]);
  EXPECT_NE(table(1)[1], table(2)[1]);
  EXPECT_EQ(usage().used_tokens, 4u + 3 + 1);
  expect_sound();
}

TEST_F(Paged, hands_a_released_block_out_only_after_the_last_step_planned_with_it) {
  bind(4, 2);
  begin(1);
  begin(2);
  ASSERT_TRUE(kv().step_begin(5).ok());
  KvGrant grant;
  ASSERT_TRUE(test::grow(kv(), 1, {}, 0, 8, 8, grant).ok());
  ASSERT_TRUE(kv().release(1, ReleaseHow::recompute).ok());
  EXPECT_EQ(test::grow(kv(), 2, {}, 0, 1, 1, grant).code(), StatusCode::out_of_kv);
  ASSERT_TRUE(kv().step_done(4).ok());
  EXPECT_EQ(test::grow(kv(), 2, {}, 0, 1, 1, grant).code(), StatusCode::out_of_kv);
  expect_sound();
  ASSERT_TRUE(kv().step_done(5).ok());
  EXPECT_TRUE(test::grow(kv(), 2, {}, 0, 8, 8, grant).ok());
}

TEST_F(Paged, hands_a_released_block_out_at_once_when_its_steps_are_done) {
  bind(4, 2);
  begin(1);
  begin(2);
  compute(1, 0, 8);
  ASSERT_TRUE(kv().step_done(step_).ok());
  ASSERT_TRUE(kv().step_begin(2).ok());
  ASSERT_TRUE(kv().release(1, ReleaseHow::recompute).ok());
  KvGrant grant;
  EXPECT_TRUE(test::grow(kv(), 2, {}, 0, 8, 8, grant).ok());
}

TEST_F(Paged, frees_the_tail_of_a_sequence_first) {
  bind(1, 4);
  begin(1);
  compute(1, 0, 4);
  const std::vector<BlockId> blocks = table(1);
  ASSERT_TRUE(kv().step_done(step_).ok());
  ASSERT_TRUE(kv().release(1, ReleaseHow::recompute).ok());
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
    ASSERT_TRUE(kv().release(computed, ReleaseHow::end).ok());
    expect_sound();
  }
}

TEST_F(Paged, refuses_calls_that_make_no_sense_and_stays_sound) {
  bind(4, 4);
  begin(1);
  compute(1, 0, 3);
  KvGrant grant;
  const uint32_t twice[] = {0, 0};
  EXPECT_THAT(std::string(test::grow(kv(), 9, {}, 0, 1, 1, grant).message()),
              HasSubstr("no sequence 9"));
  EXPECT_FALSE(test::grow(kv(), 1, {}, 2, 1, 1, grant).ok());      // not what it has
  EXPECT_FALSE(test::grow(kv(), 1, {}, 3, 2, 1, grant).ok());      // at least more than at most
  EXPECT_FALSE(test::grow(kv(), 1, {}, 3, 598, 600, grant).ok());  // beyond its limit
  EXPECT_FALSE(test::resolve(kv(), 1, {}, 3, twice, 5).ok());
  EXPECT_FALSE(kv().begin({1, {}, 10, kNoSeq, 0}).ok());
  EXPECT_FALSE(kv().begin({2, {}, 10, 1, 4}).ok());  // the parent has 3
  EXPECT_FALSE(kv().begin({2, {}, 10, 7, 1}).ok());
  KvTableView view;
  EXPECT_FALSE(kv().table(1, 3, view).ok());
  expect_sound();
}

TEST_F(Paged, gives_back_what_a_plan_does_not_use) {
  bind(4, 10);
  begin(1);
  compute(1, 0, 6);
  ASSERT_TRUE(plan(1, 6, 16).ok());
  EXPECT_EQ(table(1).size(), 4u);
  ASSERT_TRUE(kv().trim(1, 3).ok());
  EXPECT_EQ(table(1).size(), 3u);
  ASSERT_TRUE(kv().trim(1, 0).ok());
  EXPECT_EQ(table(1).size(), 2u);
  expect_sound();
  EXPECT_EQ(kv().trim(1, 1).message(),
            "sequence 1 cannot be trimmed to 1 tokens – it was granted 0");
  EXPECT_TRUE(plan(1, 6, 7).ok());
}

TEST_F(Paged, holds_what_was_reused_when_the_rest_is_trimmed) {
  bind(4, 6, 0, 6);
  begin(1);
  compute(1, 0, 6);
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  next_step();
  EXPECT_EQ(grow(1, tokens(10)).restored, 6u);
  ASSERT_TRUE(kv().trim(1, 0).ok());
  expect_sound();
  EXPECT_EQ(table(1).size(), 2u);
  next_step();
  EXPECT_TRUE(plan(1, 6, 10).ok());
}

TEST_F(Paged, refuses_more_tokens_than_are_said_to_be_known) {
  bind(4, 10);
  begin(1);
  const test::Tokens ids = tokens(3);
  KvGrant grant;
  EXPECT_EQ(kv().grow({.seq = 1, .tokens = ids, .at_least = 1, .at_most = 1}, grant).message(),
            "sequence 1 has 3 tokens – only 0 are said to be known");
}

TEST_F(Paged, keeps_books_for_each_group) {
  bind({{.block_tokens = 8, .blocks = 4, .swap_blocks = 4},
        {.dtype = DType::i8,
         .block_tokens = 2,
         .blocks = 20,
         .swap_blocks = 20,
         .window_tokens = 4}});
  begin(1);
  compute(1, 0, 12);
  EXPECT_EQ(table(1, 0).size(), 2u);
  EXPECT_EQ(table(1, 1).size(), 6u);
  EXPECT_EQ(usage(0).reserved_tokens, 16u);
  EXPECT_EQ(usage(0).used_tokens, 12u);
  EXPECT_EQ(usage(1).total_tokens, 40u);
  EXPECT_EQ(usage(1).used_tokens, 4u) << "positions 8 to 11: the block of 9, and what follows";
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  EXPECT_EQ(usage(0).swapped_tokens, 12u);
  EXPECT_EQ(usage(1).swapped_tokens, 4u);
  KvUsage none;
  EXPECT_EQ(kv().usage(2, none).message(), "no KV group 2");
}

TEST_F(Paged, counts_in_the_ledger_group) {
  const std::vector<test::KvTestGroup> groups = {
      {.block_tokens = 2, .blocks = 20, .window_tokens = 4}, {.block_tokens = 8, .blocks = 4}};
  bind(groups, 1);
  begin(1);
  EXPECT_EQ(match(1, tokens(9), 9).tokens_needed, 16u);
  compute(1, 0, 9);
  EXPECT_EQ(match(1, tokens(9)).tokens_held, 16u);
  EXPECT_EQ(try_bind(groups, 2).message(), "memory is to be counted in KV group 2 – there are 2");
}

TEST_F(Paged, is_short_of_memory_when_one_group_is) {
  bind({{.block_tokens = 4, .blocks = 10}, {.block_tokens = 4, .blocks = 2}});
  begin(1);
  KvGrant grant;
  ASSERT_TRUE(test::grow(kv(), 1, {}, 0, 1, 20, grant).ok());
  EXPECT_EQ(grant.granted, 8u);
  begin(2);
  EXPECT_EQ(plan(2, 0, 1).code(), StatusCode::out_of_kv);
  EXPECT_TRUE(table(2, 0).empty()) << "nothing has changed in the others";
}

TEST_F(Paged, wastes_less_than_half_a_block_on_average) {
  constexpr uint32_t kBlock = 16;
  bind(kBlock, 64);
  uint64_t wasted = 0;
  for (uint32_t length = 1; length <= 2 * kBlock; ++length) {
    begin(length);
    compute(length, 0, length);
    const KvUsage usage = test::usage(kv());
    wasted += usage.reserved_tokens - usage.used_tokens;
    ASSERT_TRUE(release(length).ok());
  }
  // Lengths 1 … 2n leave n-1, n-2, … 0 slots empty, twice: (n-1)/2 a sequence.
  EXPECT_EQ(wasted, kBlock * (kBlock - 1));
}

class PagedWorld : public testing::TestWithParam<std::pair<uint64_t, bool>> {};

TEST_P(PagedWorld, lets_nobody_read_what_is_not_theirs) {
  const test::KvTestGroup scarce{.blocks = 20, .swap_blocks = 12};
  const test::KvTestGroup window{
      .dtype = DType::i8, .block_tokens = 2, .blocks = 40, .swap_blocks = 24, .window_tokens = 9};
  const test::KvTestGroup states{
      .kind = KvKind::recurrent, .block_tokens = 1, .blocks = 20, .swap_blocks = 6};
  const test::KvWorldOptions worlds[] = {
      {},
      {.groups = {{.blocks = 17, .swap_blocks = 16}}},
      {.groups = {{.block_tokens = 1, .blocks = 66, .swap_blocks = 40}}},
      {.groups = {scarce, window}},
      {.groups = {states}},
      {.groups = {scarce, states, window}}};
  const auto [seed, plan_ahead] = GetParam();
  for (test::KvWorldOptions options : worlds) {
    options.plan_ahead = plan_ahead;
    TestHost host;
    PluginInstance<KVCacheManager> kv("paged", host);
    test::KvWorld world(*kv, options, seed);
    world.run();
    if (HasFailure()) return;
    EXPECT_EQ(world.reused(), 0u);
    EXPECT_GT(world.refused(), 0u);
    EXPECT_EQ(world.ahead() > 50, plan_ahead);
    const bool trees = !options.groups[0].recurrent() && options.groups.size() < 3;
    EXPECT_EQ(world.paths() > 2, trees);
    if (options.groups[0].swap_blocks > 0) {
      EXPECT_GT(world.restored(), 15u);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, PagedWorld, testing::ValuesIn(test::kv_worlds(8)));

}  // namespace
}  // namespace tenon
