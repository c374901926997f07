#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/sdk/kv_cache/prefix_hits.h>

#include "tests/support/attention/kv_case.h"
#include "tests/support/attention/kv_world.h"

namespace tenon {
namespace {

using test::tokens;
using test::Tokens;
using test::operator+;  // NOLINT(misc-unused-using-decls): the check overlooks operators

CacheKey salted(uint64_t salt) {
  CacheKey key;
  key.salt = salt;
  return key;
}
CacheKey adapted(uint64_t adapter) {
  CacheKey key;
  key.adapter = adapter;
  return key;
}

class Prefix : public test::KvCase {
 protected:
  Prefix() : KvCase("prefix") {}

  // Counts what the manager has counted so far.
  uint64_t counted(std::string_view name) {
    next_step();
    const auto found = host_.counters.find(name);
    return found == host_.counters.end() ? 0 : found->second;
  }
};

TEST_F(Prefix, keeps_full_blocks_alone) {
  bind(16, 10);
  EXPECT_EQ(serve(1, tokens(55)), 0u);
  EXPECT_EQ(cached_blocks(), 3u);
  EXPECT_EQ(free_blocks(), 10u);
  EXPECT_EQ(usage().used_tokens, 0u);
}

TEST_F(Prefix, shares_the_full_blocks_of_a_common_beginning) {
  bind(16, 10);
  begin(1);
  compute(1, tokens(55));
  begin(2);
  const Tokens other = tokens(48) + tokens(9, 3);
  EXPECT_EQ(match(2, other).ready, 48u);
  EXPECT_EQ(match(2, other, 57).tokens_needed, 16u) << "three blocks are held by the first";
  EXPECT_EQ(compute(2, other), 48u);
  const std::vector<BlockId> first = table(1), second = table(2);
  ASSERT_EQ(second.size(), 4u);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 3, second.begin()));
  EXPECT_NE(first[3], second[3]);
  EXPECT_EQ(free_blocks(), 5u);
  EXPECT_EQ(counted("hit_tokens"), 48u);
}

TEST_F(Prefix, leaves_the_last_token_to_compute) {
  bind(4, 10);
  serve(1, tokens(16));
  begin(2);
  EXPECT_EQ(match(2, tokens(16)).ready, 12u);
  EXPECT_EQ(compute(2, tokens(16)), 12u);
  EXPECT_EQ(serve(3, tokens(17)), 16u);
}

TEST_F(Prefix, keeps_what_was_generated_as_well) {
  bind(4, 10);
  begin(1);
  compute(1, tokens(6));
  for (uint32_t known = 7; known <= 9; ++known) compute(1, tokens(known), known - 1);
  begin(2);
  EXPECT_EQ(match(2, tokens(9)).ready, 8u) << "the second block was filled by decoding";
}

TEST_F(Prefix, finds_nothing_behind_a_token_that_differs) {
  bind(4, 10);
  Tokens changed = tokens(12);
  serve(1, changed);
  changed[0] = 7;
  EXPECT_EQ(serve(2, changed), 0u);
  changed = tokens(12);
  changed[5] = 7;
  EXPECT_EQ(serve(3, changed), 4u);
}

TEST_F(Prefix, never_shares_between_keys) {
  bind(4, 20);
  const uint64_t picture[] = {5}, other_picture[] = {6};
  serve(1, tokens(9));
  EXPECT_EQ(serve(2, tokens(9), salted(1)), 0u);
  EXPECT_EQ(serve(3, tokens(9), adapted(1)), 0u);
  EXPECT_EQ(serve(4, tokens(9), {0, 0, picture}), 0u);
  EXPECT_EQ(serve(5, tokens(9), {0, 0, other_picture}), 0u);
  EXPECT_EQ(serve(6, tokens(9), salted(1)), 8u);
  EXPECT_EQ(serve(7, tokens(9), {0, 0, picture}), 8u);
}

TEST_F(Prefix, hands_out_blocks_without_content_first_then_tails_before_heads) {
  bind(1, 6);
  begin(1);
  compute(1, tokens(3));
  const std::vector<BlockId> kept = table(1);
  ASSERT_TRUE(release(1).ok());
  begin(2);
  compute(2, tokens(6, 1));
  const std::vector<BlockId> order = table(2);
  EXPECT_EQ((std::vector<BlockId>{order.begin() + 3, order.end()}),
            (std::vector<BlockId>{kept[2], kept[1], kept[0]}));
  EXPECT_EQ(counted("evicted_blocks"), 3u);
  ASSERT_TRUE(release(2).ok());
  EXPECT_EQ(serve(3, tokens(3)), 0u) << "evicted contents are not found";
}

TEST_F(Prefix, does_not_find_new_content_under_an_old_name) {
  bind(4, 2);
  serve(1, tokens(5));
  serve(2, tokens(8, 1));
  EXPECT_EQ(serve(3, tokens(5)), 0u);
  EXPECT_EQ(serve(4, tokens(8, 1)), 0u) << "its block was taken by the third";
}

TEST_F(Prefix, does_not_hand_out_what_it_has_just_found) {
  bind(4, 4);
  serve(1, tokens(12));
  // Three cached and one free block: the hit is held before the fourth is taken.
  const Tokens longer = tokens(12) + tokens(4, 5);
  begin(2);
  EXPECT_EQ(match(2, longer, 16).tokens_needed, 16u) << "cached blocks are taken out of the free";
  EXPECT_EQ(compute(2, longer), 12u);
  EXPECT_EQ(free_blocks(), 0u);
  EXPECT_EQ(counted("evicted_blocks"), 0u);
}

TEST_F(Prefix, changes_nothing_when_there_is_no_room_behind_what_was_found) {
  bind(4, 5);
  serve(1, tokens(9));
  begin(2);
  compute(2, tokens(8, 1));
  begin(3);
  const Tokens longer = tokens(8) + tokens(8, 2);
  EXPECT_EQ(free_blocks(), 3u);
  EXPECT_EQ(match(3, longer, 16).tokens_needed, 16u);
  EXPECT_EQ(try_grow(3, longer), StatusCode::out_of_kv);
  EXPECT_EQ(free_blocks(), 3u);
  EXPECT_EQ(cached_blocks(), 2u);
  EXPECT_TRUE(table(3).empty());
  EXPECT_EQ(match(3, longer).ready, 8u);
  ASSERT_TRUE(release(2).ok());
  EXPECT_EQ(try_grow(3, longer), StatusCode::ok);
}

TEST_F(Prefix, evicts_equal_contents_one_by_one) {
  bind(4, 6);
  begin(1);
  begin(2);
  grow(1, tokens(5));
  grow(2, tokens(5));
  resolve(1, tokens(5), 0, 5);
  resolve(2, tokens(5), 0, 5);
  next_step();
  EXPECT_NE(table(1)[0], table(2)[0]);
  ASSERT_TRUE(release(1).ok());
  ASSERT_TRUE(release(2).ok());
  EXPECT_EQ(cached_blocks(), 2u);
  begin(3);
  compute(3, tokens(20, 3));
  EXPECT_EQ(cached_blocks(), 1u) << "five blocks: four free ones and one of the two";
  ASSERT_TRUE(release(3).ok());
  EXPECT_EQ(serve(4, tokens(5)), 4u);
}

TEST_F(Prefix, gives_every_reference_back_when_a_plan_is_rolled_back) {
  bind(4, 8);
  begin(1);
  compute(1, tokens(12));
  ASSERT_TRUE(release(1, ReleaseHow::recompute).ok());
  const uint64_t free = free_blocks(), cached = cached_blocks();
  begin(2);
  const KvGrant grant = grow(2, tokens(12) + tokens(6, 1));
  EXPECT_EQ(grant.reused, 12u);
  EXPECT_EQ(match(1, tokens(12) + tokens(5, 1)).promised, 4u);
  ASSERT_TRUE(release(2, ReleaseHow::recompute).ok());
  next_step();
  EXPECT_EQ(free_blocks(), free);
  EXPECT_EQ(cached_blocks(), cached);
  EXPECT_EQ(match(1, tokens(12) + tokens(5, 1)).promised, 0u);
  EXPECT_EQ(match(2, tokens(13)).ready, 12u);
}

TEST_F(Prefix, promises_what_is_being_computed) {
  bind(16, 100);
  const Tokens shared = tokens(512);
  begin(1);
  grow(1, shared + tokens(3, 1));
  for (SeqId seq = 2; seq <= 8; ++seq) {
    begin(seq);
    const KvMatch match = this->match(seq, shared + tokens(3, static_cast<TokenId>(seq)));
    EXPECT_EQ(match.ready, 0u);
    EXPECT_EQ(match.promised, 512u);
  }
  resolve(1, shared + tokens(3, 1), 0, 515);
  next_step();
  for (SeqId seq = 2; seq <= 8; ++seq) {
    const Tokens mine = shared + tokens(3, static_cast<TokenId>(seq));
    EXPECT_EQ(match(seq, mine).promised, 0u);
    EXPECT_EQ(compute(seq, mine), 512u);
  }
  EXPECT_EQ(counted("promised_tokens"), 7u * 512);
  EXPECT_EQ(counted("hit_tokens"), 7u * 512);
  EXPECT_EQ(free_blocks(), 100u - 32 - 8);
}

TEST_F(Prefix, promises_only_as_far_as_a_chunk_goes) {
  bind(4, 20);
  begin(1);
  begin(2);
  KvGrant grant;
  ASSERT_TRUE(test::grow(kv(), 1, tokens(20), 0, 10, 10, grant).ok());
  EXPECT_EQ(match(2, tokens(20)).promised, 8u);
  resolve(1, tokens(20), 0, 10);
  next_step();
  ASSERT_TRUE(test::grow(kv(), 1, tokens(20), 10, 10, 10, grant).ok());
  const KvMatch later = match(2, tokens(20));
  EXPECT_EQ(later.ready, 8u);
  EXPECT_EQ(later.promised, 8u) << "the last token is left to compute";
}

TEST_F(Prefix, takes_a_promise_back_when_it_will_not_be_kept) {
  bind(4, 20);
  begin(1);
  begin(2);
  grow(1, tokens(9));
  EXPECT_EQ(match(2, tokens(9)).promised, 8u);
  ASSERT_TRUE(release(1).ok());  // cancelled
  EXPECT_EQ(match(2, tokens(9)).promised, 0u);
  begin(3);
  compute(3, tokens(4));
  KvGrant grant;
  ASSERT_TRUE(test::grow(kv(), 3, tokens(9), 4, 5, 5, grant).ok());
  EXPECT_EQ(match(2, tokens(9)).promised, 4u);
  resolve(3, tokens(9), 4, 4);  // rolled back
  EXPECT_EQ(match(2, tokens(9)).promised, 0u);
  EXPECT_EQ(match(2, tokens(9)).ready, 4u);
}

TEST_F(Prefix, takes_a_promise_back_that_a_trimmed_plan_does_not_keep) {
  bind(4, 20);
  begin(1);
  begin(2);
  grow(1, tokens(20));
  EXPECT_EQ(match(2, tokens(20)).promised, 16u);
  ASSERT_TRUE(kv().trim(1, 9).ok());
  EXPECT_EQ(match(2, tokens(20)).promised, 8u);
  ASSERT_TRUE(kv().trim(1, 0).ok());
  EXPECT_EQ(match(2, tokens(20)).promised, 0u);
}

TEST_F(Prefix, keeps_the_promise_of_a_step_in_flight) {
  bind(4, 20);
  begin(1);
  begin(2);
  const Tokens ids = tokens(20);
  KvGrant grant;
  ASSERT_TRUE(test::grow(kv(), 1, ids, 0, 9, 9, grant).ok());
  ASSERT_TRUE(kv().step_begin(2).ok());
  ASSERT_TRUE(test::grow(kv(), 1, ids, 9, 11, 11, grant).ok());
  EXPECT_EQ(match(2, ids).ready, 0u) << "nothing is found before it is resolved";
  EXPECT_EQ(match(2, ids).promised, 16u);
  ASSERT_TRUE(settle(1, 0, 9, 11).ok());
  EXPECT_EQ(match(2, ids).ready, 8u);
  EXPECT_EQ(match(2, ids).promised, 8u);
  ASSERT_TRUE(settle(1, 9, 11).ok());
  EXPECT_EQ(match(2, ids).ready, 16u);
  EXPECT_EQ(match(2, ids).promised, 0u);
}

TEST_F(Prefix, lets_tokens_decide_when_hashes_collide) {
  remake({{"hash_bits", test::option(1)}});
  bind(4, 40);
  for (TokenId kind = 0; kind < 8; ++kind) {
    EXPECT_EQ(serve(static_cast<SeqId>(kind + 1), tokens(17, kind)), 0u) << kind;
  }
  for (TokenId kind = 0; kind < 8; ++kind) {
    EXPECT_EQ(serve(static_cast<SeqId>(kind + 20), tokens(17, kind)), 16u) << kind;
  }
}

TEST_F(Prefix, shares_with_forks_and_keeps_what_they_filled) {
  bind(4, 12);
  begin(1);
  compute(1, tokens(6));
  fork(2, 1, 6);
  EXPECT_EQ(table(1), table(2));
  const Tokens mine = tokens(6) + tokens(3, 1), its = tokens(6) + tokens(3, 2);
  compute(1, mine, 6);
  EXPECT_EQ(moves().size(), 1u);
  compute(2, its, 6);
  EXPECT_TRUE(moves().empty());
  ASSERT_TRUE(release(1).ok());
  ASSERT_TRUE(release(2).ok());
  EXPECT_EQ(cached_blocks(), 3u) << "the common block once, each one's second";
  EXPECT_EQ(serve(3, mine), 8u);
  EXPECT_EQ(serve(4, its), 8u);
}

TEST_F(Prefix, finds_its_own_blocks_again_after_a_preemption) {
  bind(4, 8);
  begin(1);
  compute(1, tokens(13));
  ASSERT_TRUE(release(1, ReleaseHow::recompute).ok());
  EXPECT_EQ(compute(1, tokens(14)), 12u);
}

TEST_F(Prefix, brings_back_from_the_pool_only_what_the_cache_has_lost) {
  bind(4, 8, 0, 8);
  begin(1);
  compute(1, tokens(14));
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  EXPECT_EQ(moves().size(), 4u);
  EXPECT_EQ(usage().swapped_tokens, 14u);
  next_step();
  // Seven blocks: the four free ones and the tail of the three cached.
  begin(2);
  compute(2, tokens(28, 1));
  ASSERT_TRUE(release(2).ok());
  EXPECT_EQ(match(1, tokens(15)).ready, 14u);
  const KvGrant grant = grow(1, tokens(15));
  EXPECT_EQ(grant.reused, 14u);
  EXPECT_EQ(grant.restored, 14u - 4);
  const std::vector<KvMove> back = moves();
  ASSERT_EQ(back.size(), 3u) << "the first block was still cached";
  EXPECT_EQ(back[0].from.tier, KvTier::swap);
  EXPECT_EQ(back[2].tokens, 2u);
}

TEST_F(Prefix, needs_only_the_window_of_a_sliding_group) {
  bind(2, 20, 4);
  begin(1);
  compute(1, tokens(12));
  // Positions 9 … 11 are seen by the next row: entries 4 and 5.
  EXPECT_EQ(gone(1), 4);
  begin(2);
  EXPECT_EQ(compute(2, tokens(13)), 12u);
  EXPECT_EQ(gone(2), 5);
  EXPECT_EQ(table(2)[5], table(1)[5]);
}

TEST_F(Prefix, joins_a_group_with_a_window_and_one_without) {
  bind(2, 20, 4, 0, 2);
  serve(1, tokens(12));
  begin(2);
  EXPECT_EQ(compute(2, tokens(9) + tokens(4, 1)), 8u);
  EXPECT_EQ(table(2, 0)[0] == kNoBlock, false);
  EXPECT_EQ(table(2, 1)[0], kNoBlock);
}

TEST(PrefixHits, looks_for_the_last_blocks_of_a_window) {
  struct Group {
    uint32_t window;
    uint32_t id() const { return 0; }
    uint32_t block_tokens() const { return 2; }
    uint32_t window_tokens() const { return window; }
    uint32_t passed(uint32_t n) const { return n < window ? 0 : (n - window + 1) / 2; }
  };
  const std::vector<Group> sliding{{4}}, all{{0}};
  constexpr std::pair<std::string_view, uint32_t> kCases[] = {
      {"FFFF", 0},        {"T", 1},           {"TF", 1},   {"TT", 2},
      {"TTF", 2},         {"TTT", 3},         {"TTTF", 3}, {"TTFTFFTTFTTT", 12},
      {"TTFTFFTTFFF", 8}, {"TTFTFFTTFFFT", 8}};
  sdk::PrefixHits hits;
  for (const auto& [there, blocks] : kCases) {
    const auto at = [&mask = there](GroupId, uint32_t i) { return mask[i] == 'T'; };
    const auto most = static_cast<uint32_t>(there.size());
    const auto anywhere = [](uint32_t) { return true; };
    EXPECT_EQ(hits.longest(most, sliding, at, anywhere), blocks) << there;
    EXPECT_EQ(hits.longest(most, all, at, anywhere), std::min(there.find('F'), there.size()))
        << there;
  }
}

TEST(PrefixHits, end_where_it_is_possible_to_start) {
  struct Group {
    uint32_t id() const { return 7; }
    uint32_t block_tokens() const { return 2; }
    uint32_t window_tokens() const { return 0; }
    uint32_t passed(uint32_t) const { return 0; }
  };
  const auto first_five = [](GroupId, uint32_t i) { return i < 5; };
  const auto at = [](std::initializer_list<uint32_t> starts) {
    return [starts = std::vector(starts)](uint32_t i) {
      return std::find(starts.begin(), starts.end(), i) != starts.end();
    };
  };
  sdk::PrefixHits hits;
  const std::vector<Group> one(1), none;
  EXPECT_EQ(hits.longest(9, one, first_five, at({1, 3, 6})), 4u);
  EXPECT_EQ(hits.longest(9, one, first_five, at({6})), 0u);
  EXPECT_EQ(hits.longest(9, none, first_five, at({1, 3, 6})), 7u);
}

TEST_F(Prefix, evicts_what_was_found_least_often) {
  remake({{"eviction", test::option(1)}});
  bind(4, 4);
  serve(1, tokens(5));
  serve(2, tokens(5));
  serve(3, tokens(5, 1));  // later, found never
  begin(4);
  compute(4, tokens(12, 2));  // two free blocks, one cached
  ASSERT_TRUE(release(4).ok());
  EXPECT_EQ(serve(5, tokens(5, 1)), 0u);
  EXPECT_EQ(serve(6, tokens(5)), 4u);
}

TEST_F(Prefix, evicts_in_order_of_arrival) {
  remake({{"eviction", test::option(2)}});
  bind(4, 5);
  serve(1, tokens(9));
  serve(2, tokens(5, 1));
  serve(3, tokens(9));  // found again, still the first to have come
  begin(4);
  compute(4, tokens(12, 2));  // two free blocks, then the tail of the first
  begin(5);
  EXPECT_EQ(match(5, tokens(9)).ready, 4u);
  ASSERT_TRUE(release(5).ok());
  EXPECT_EQ(serve(6, tokens(5, 1)), 4u);
}

TEST_F(Prefix, refuses_groups_of_different_blocks) {
  EXPECT_EQ(try_bind({{}, {.block_tokens = 8}}).message(),
            "KV groups have blocks of 4 and of 8 tokens – kv_cache 'prefix' needs one size");
}

class PrefixWorld : public testing::TestWithParam<std::pair<uint64_t, bool>> {};

TEST_P(PrefixWorld, lets_nobody_read_what_is_not_theirs) {
  const test::KvTestGroup scarce{.blocks = 20, .swap_blocks = 12};
  const test::KvTestGroup window{
      .dtype = DType::i8, .blocks = 16, .swap_blocks = 10, .window_tokens = 9};
  const test::KvWorldOptions worlds[] = {
      {},
      {.groups = {{.blocks = 17, .swap_blocks = 16}}},
      {.groups = {{.block_tokens = 1, .blocks = 66, .swap_blocks = 20}}},
      {.groups = {scarce, window}},
      {.groups = {{.blocks = 17, .window_tokens = 7}, window}}};
  const auto [seed, plan_ahead] = GetParam();
  for (test::KvWorldOptions options : worlds) {
    options.plan_ahead = plan_ahead;
    for (int64_t eviction = 0; eviction < 3; ++eviction) {
      for (int64_t bits : {3, 64}) {
        TestHost host;
        PluginInstance<KVCacheManager> kv(
            "prefix", host,
            {{"eviction", test::option(eviction)}, {"hash_bits", test::option(bits)}});
        test::KvWorld world(*kv, options, seed);
        world.run();
        if (HasFailure()) return;
        EXPECT_GT(world.reused(), 100u);
        EXPECT_EQ(world.ahead() > 50, plan_ahead);
        EXPECT_GT(world.paths(), 2u);
        if (options.groups[0].swap_blocks > 0) {
          EXPECT_GT(world.restored(), 0u);
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, PrefixWorld, testing::ValuesIn(test::kv_worlds(5)));

}  // namespace
}  // namespace tenon
