// Recurrent groups: which states stay after a prefix, and which sequences start from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/attention/kv_case.h"
#include "tests/support/attention/kv_world.h"

namespace tenon {
namespace {

using test::tokens;
using test::Tokens;
using test::operator+;  // NOLINT(misc-unused-using-decls): the check overlooks operators
using testing::ElementsAre;

constexpr ResolvedFact kBlocksOfFour[] = {{"kv.block_tokens", "", 4}};

class PrefixStates : public test::KvCase {
 protected:
  PrefixStates() : KvCase("prefix") {}

  // Blocks of four tokens in addition to the states.
  void bind(uint32_t slots, uint32_t swap_slots = 0) {
    KvCase::bind(
        {{.blocks = 60, .swap_blocks = swap_slots > 0 ? 20u : 0u}, states(slots, swap_slots)});
  }
  static test::KvTestGroup states(uint32_t slots, uint32_t swap_slots = 0) {
    return {.kind = KvKind::recurrent,
            .dtype = DType::u8,
            .block_tokens = 1,
            .blocks = slots,
            .swap_blocks = swap_slots};
  }
  std::vector<uint32_t> ends(SeqId seq, GroupId group = 1) {
    KvTableView view;
    EXPECT_TRUE(kv().table(seq, group, view).ok());
    EXPECT_EQ(view.ends.size(), view.blocks.size());
    return {view.ends.begin(), view.ends.end()};
  }
  // What a sequence that comes now would find.
  uint32_t ready(const Tokens& known) {
    const SeqId seq = 1000 + asked_++;
    begin(seq);
    const uint32_t found = match(seq, known).ready;
    EXPECT_TRUE(release(seq).ok());
    return found;
  }
  void decode(SeqId seq, uint32_t from, uint32_t to) {
    for (uint32_t known = from + 1; known <= to; ++known) compute(seq, tokens(known), known - 1);
  }

  SeqId asked_ = 0;
};

TEST_F(PrefixStates, keep_the_state_behind_the_last_whole_block_of_a_prompt) {
  bind(10);
  begin(1);
  grow(1, tokens(11));
  EXPECT_THAT(ends(1), ElementsAre(0u, 8u, 11u));
  EXPECT_EQ(ready(tokens(12)), 0u) << "nothing was computed yet";
  resolve(1, tokens(11), 0, 11);
  next_step();
  EXPECT_THAT(ends(1), ElementsAre(11u));
  EXPECT_EQ(usage(1).cached_tokens, 1u);
  EXPECT_EQ(ready(tokens(12)), 8u);
  EXPECT_EQ(ready(tokens(8)), 0u) << "the last token is left to compute, and no state is at 4";
}

TEST_F(PrefixStates, serve_the_same_prompt_and_longer_ones_where_it_ends_with_a_block) {
  bind(10);
  begin(1);
  grow(1, tokens(12));
  EXPECT_THAT(ends(1), ElementsAre(0u, 8u, 12u));
  resolve(1, tokens(12), 0, 12);
  EXPECT_EQ(ready(tokens(12)), 8u);
  EXPECT_EQ(ready(tokens(13)), 12u) << "its own state is found while it runs";
}

TEST_F(PrefixStates, are_started_from_without_a_copy) {
  bind(10);
  begin(1);
  grow(1, tokens(11));
  const BlockId kept = table(1, 1)[1];
  resolve(1, tokens(11), 0, 11);
  next_step();
  for (SeqId seq : {2, 3}) {
    begin(seq);
    EXPECT_EQ(grow(seq, tokens(8) + tokens(6, static_cast<TokenId>(seq))).reused, 8u);
    EXPECT_THAT(ends(seq), ElementsAre(8u, 12u, 14u));
    EXPECT_EQ(table(seq, 1)[0], kept);
  }
  EXPECT_TRUE(moves().empty());
  next_step();
  EXPECT_EQ(host_.counters["hit_tokens"], 16u);
  EXPECT_EQ(host_.counters["kept_states"], 1u);
}

TEST_F(PrefixStates, are_kept_where_a_prompt_parts_from_what_is_known) {
  bind(12);
  serve(1, tokens(19));
  const auto asks = [](TokenId kind) { return tokens(8) + tokens(9, kind); };
  begin(2);
  EXPECT_EQ(match(2, asks(2)).ready, 0u) << "K and V are there, the state is not";
  grow(2, asks(2));
  EXPECT_THAT(ends(2), ElementsAre(0u, 8u, 16u, 17u));
  begin(3);
  EXPECT_EQ(match(3, asks(3)).ready, 0u);
  EXPECT_EQ(match(3, asks(3)).promised, 8u);
  resolve(2, asks(2), 0, 17);
  next_step();
  EXPECT_EQ(compute(3, asks(3)), 8u);
  EXPECT_EQ(ready(tokens(19)), 16u) << "the first one's is still there";
}

TEST_F(PrefixStates, are_promised_only_where_a_step_has_a_slot) {
  bind(12);
  const Tokens shared = tokens(12);
  begin(1);
  grow(1, shared + tokens(9, 1));
  begin(2);
  EXPECT_EQ(match(2, shared + tokens(9, 2)).promised, 0u) << "blocks without a state are no use";
  grow(2, shared + tokens(9, 2));
  EXPECT_THAT(ends(2), ElementsAre(0u, 12u, 20u, 21u));
  begin(3);
  EXPECT_EQ(match(3, shared + tokens(9, 3)).promised, 12u);
  ASSERT_TRUE(kv().trim(2, 11).ok());
  EXPECT_EQ(match(3, shared + tokens(9, 3)).promised, 0u);
  ASSERT_TRUE(release(2).ok());
}

TEST_F(PrefixStates, know_what_waiting_sequences_have_in_common) {
  bind(12);
  begin(1);
  begin(2);
  match(1, tokens(8) + tokens(9, 1));
  match(2, tokens(8) + tokens(9, 2));
  grow(1, tokens(8) + tokens(9, 1));
  EXPECT_THAT(ends(1), ElementsAre(0u, 8u, 16u, 17u));
  EXPECT_EQ(match(2, tokens(8) + tokens(9, 2)).promised, 8u);
}

TEST_F(PrefixStates, of_an_answer_are_the_latest_and_that_of_its_prompt) {
  bind(10);
  begin(1);
  compute(1, tokens(6));
  decode(1, 6, 14);
  EXPECT_EQ(ready(tokens(15)), 12u);
  EXPECT_EQ(ready(tokens(12)), 4u) << "12 took the place of 8";
  EXPECT_EQ(usage(1).cached_tokens, 2u);
  ASSERT_TRUE(release(1).ok());
  EXPECT_EQ(ready(tokens(15)), 12u);
}

TEST_F(PrefixStates, of_a_prompt_in_chunks_are_the_latest_and_where_others_part) {
  bind(12);
  serve(1, tokens(11));
  begin(2);
  const Tokens ids = tokens(4) + tokens(24, 2);
  for (const uint32_t from : {0u, 10u, 20u}) {
    KvGrant grant;
    ASSERT_TRUE(test::grow(kv(), 2, ids, from, 1, std::min(10u, 28 - from), grant).ok());
    resolve(2, ids, from, from + grant.granted);
    next_step();
  }
  EXPECT_EQ(ready(ids), 24u);
  EXPECT_EQ(ready(tokens(4) + tokens(20, 2)), 4u) << "those of earlier chunks made room";
}

TEST_F(PrefixStates, stay_where_others_have_found_them) {
  bind(12);
  begin(1);
  compute(1, tokens(7));
  decode(1, 7, 9);
  begin(2);
  EXPECT_EQ(compute(2, tokens(10)), 8u);
  decode(1, 9, 13);
  ASSERT_TRUE(release(2).ok());
  EXPECT_EQ(ready(tokens(11)), 8u) << "found once";
}

TEST_F(PrefixStates, of_drafts_that_are_rejected_are_never_found) {
  bind(16);
  for (const bool accepted : {false, true}) {
    const SeqId seq = accepted ? 2 : 1;
    begin(seq);
    compute(seq, tokens(7));
    ASSERT_TRUE(plan(seq, 7, 8, 5).ok());
    EXPECT_EQ(ends(seq).back(), 13u);
    ASSERT_TRUE(settle(seq, 7, accepted ? 6 : 2).ok());
    next_step();
    EXPECT_EQ(ready(tokens(14)), accepted ? 12u : 8u);
    ASSERT_TRUE(release(seq).ok());
  }
}

TEST_F(PrefixStates, are_evicted_when_slots_run_out_and_made_again_on_the_next_use) {
  bind(4);
  serve(1, tokens(9));
  EXPECT_EQ(ready(tokens(9)), 8u);
  for (SeqId seq = 2; seq <= 5; ++seq) {
    begin(seq);
    compute(seq, tokens(3, static_cast<TokenId>(seq)));
  }
  EXPECT_EQ(usage(1).free_tokens, 0u);
  EXPECT_EQ(ready(tokens(9)), 0u);
  for (SeqId seq = 2; seq <= 5; ++seq) ASSERT_TRUE(release(seq).ok());
  EXPECT_EQ(host_.counters["evicted_blocks"], 1u);
  EXPECT_EQ(serve(6, tokens(9)), 0u);
  EXPECT_EQ(serve(7, tokens(9)), 8u);
}

TEST_F(PrefixStates, take_no_slot_that_a_live_sequence_may_want) {
  bind(4);
  begin(1);
  begin(2);
  grow(1, tokens(11));
  EXPECT_THAT(ends(1), ElementsAre(0u, 8u, 11u)) << "two are left for two sequences";
  grow(2, tokens(10, 1));
  EXPECT_THAT(ends(2), ElementsAre(0u, 10u));
  ASSERT_TRUE(kv().trim(2, 0).ok());
  ASSERT_TRUE(release(1).ok());
  next_step();
  grow(2, tokens(10, 1));
  EXPECT_THAT(ends(2), ElementsAre(0u, 8u, 10u));
}

TEST_F(PrefixStates, are_counted_when_they_leave_what_is_free) {
  KvCase::remake({}, {kBlocksOfFour, 1});
  KvCase::bind({states(8)});
  serve(1, tokens(11));
  EXPECT_EQ(usage().cached_tokens, 1u);
  begin(2);
  EXPECT_EQ(match(2, tokens(11), 11).tokens_needed, 2u) << "the cached one, and where it ends";
  begin(3);
  EXPECT_EQ(compute(3, tokens(11)), 8u);
  EXPECT_EQ(match(2, tokens(11), 13).tokens_needed, 4u) << "and two drafts";
  grow(3, tokens(12), 11);
  EXPECT_EQ(usage().reserved_tokens, 2u);
}

TEST_F(PrefixStates, serve_a_model_without_attention) {
  KvCase::remake({}, {kBlocksOfFour, 1});
  KvCase::bind({states(12)});
  serve(1, tokens(19));
  EXPECT_EQ(serve(2, tokens(8) + tokens(9, 1)), 0u);
  EXPECT_EQ(serve(3, tokens(8) + tokens(9, 2)), 8u);
  EXPECT_EQ(serve(4, tokens(19)), 16u);
  CacheKey other;
  other.adapter = 3;
  EXPECT_EQ(serve(5, tokens(19), other), 0u);
  EXPECT_EQ(serve(6, tokens(19), other), 16u);
}

TEST_F(PrefixStates, are_never_shared_between_keys) {
  bind(12);
  CacheKey salted;
  salted.salt = 1;
  serve(1, tokens(9));
  EXPECT_EQ(serve(2, tokens(9), salted), 0u);
  EXPECT_EQ(serve(3, tokens(9), salted), 8u);
  EXPECT_EQ(serve(4, tokens(9)), 8u);
}

TEST_F(PrefixStates, are_found_again_after_a_preemption) {
  bind(10);
  begin(1);
  compute(1, tokens(6));
  decode(1, 6, 10);
  ASSERT_TRUE(release(1, ReleaseHow::recompute).ok());
  EXPECT_EQ(compute(1, tokens(11)), 8u);
}

TEST_F(PrefixStates, come_back_from_the_pool_where_a_sequence_stopped) {
  bind(10, 4);
  begin(1);
  compute(1, tokens(11));
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  moves();
  next_step();
  EXPECT_EQ(match(1, tokens(12)).ready, 11u);
  const KvGrant grant = grow(1, tokens(12));
  EXPECT_EQ(grant.reused, 11u);
  EXPECT_EQ(grant.restored, 3u) << "whole blocks were still cached";
  EXPECT_THAT(ends(1), ElementsAre(11u, 12u));
  EXPECT_EQ(moves().size(), 2u);
}

TEST_F(PrefixStates, are_shared_by_forks) {
  bind(12);
  begin(1);
  compute(1, tokens(8));
  fork(2, 1, 8);
  EXPECT_EQ(table(1, 1), table(2, 1));
  const Tokens mine = tokens(8) + tokens(4, 1), its = tokens(8) + tokens(4, 2);
  compute(1, mine, 8);
  compute(2, its, 8);
  ASSERT_TRUE(release(1).ok());
  ASSERT_TRUE(release(2).ok());
  EXPECT_EQ(ready(mine + tokens(1)), 12u);
  EXPECT_EQ(ready(its + tokens(1)), 12u);
  EXPECT_EQ(ready(tokens(9)), 8u);
}

TEST_F(PrefixStates, stay_behind_a_step_in_flight) {
  bind(12);
  begin(1);
  const Tokens ids = tokens(21);
  KvGrant grant;
  ASSERT_TRUE(test::grow(kv(), 1, ids, 0, 10, 10, grant).ok());
  KvTableView in_flight;
  ASSERT_TRUE(kv().table(1, 1, in_flight).ok());
  EXPECT_THAT(in_flight.ends, ElementsAre(0u, 8u, 10u));
  ASSERT_TRUE(kv().step_begin(2).ok());
  ASSERT_TRUE(test::grow(kv(), 1, ids, 10, 11, 11, grant).ok());
  EXPECT_THAT(ends(1), ElementsAre(10u, 20u, 21u));
  EXPECT_EQ(table(1, 1)[0], in_flight.blocks[2]);
  EXPECT_THAT(in_flight.ends, ElementsAre(0u, 8u, 10u)) << "its own table is as it was";
  ASSERT_TRUE(settle(1, 0, 10, 11).ok());
  EXPECT_EQ(ready(ids), 8u);
  ASSERT_TRUE(settle(1, 10, 11).ok());
  EXPECT_EQ(ready(ids), 20u);
}

TEST_F(PrefixStates, of_a_trimmed_grant_are_those_that_it_reaches) {
  bind(10);
  begin(1);
  grow(1, tokens(11));
  ASSERT_TRUE(kv().trim(1, 9).ok());
  EXPECT_THAT(ends(1), ElementsAre(0u, 8u, 9u));
  ASSERT_TRUE(kv().trim(1, 8).ok());
  EXPECT_THAT(ends(1), ElementsAre(0u, 8u));
  ASSERT_TRUE(kv().trim(1, 5).ok());
  EXPECT_THAT(ends(1), ElementsAre(0u, 5u));
  expect_sound();
  resolve(1, tokens(11), 0, 5);
  EXPECT_EQ(ready(tokens(11)), 0u);
}

class PrefixStateWorld : public testing::TestWithParam<std::pair<uint64_t, bool>> {};

TEST_P(PrefixStateWorld, lets_nobody_start_from_the_state_of_others) {
  const test::KvTestGroup few{.kind = KvKind::recurrent, .block_tokens = 1, .blocks = 24};
  const test::KvTestGroup many{
      .kind = KvKind::recurrent, .block_tokens = 1, .blocks = 60, .swap_blocks = 6};
  const test::KvTestGroup blocks{.blocks = 40, .swap_blocks = 16};
  const test::KvWorldOptions worlds[] = {
      {.groups = {few}},
      {.groups = {many}},
      {.groups = {{.blocks = 40}, few}},
      {.groups = {many, blocks}},
      {.groups = {blocks, many, {.blocks = 30, .swap_blocks = 16, .window_tokens = 9}, many}}};
  const auto [seed, plan_ahead] = GetParam();
  for (test::KvWorldOptions options : worlds) {
    options.plan_ahead = plan_ahead;
    for (const int64_t eviction : {0, 1}) {
      TestHost host;
      PluginInstance<KVCacheManager> kv("prefix", host, {{"eviction", test::option(eviction)}},
                                        {kBlocksOfFour, 1});
      test::KvWorld world(*kv, options, seed);
      world.run();
      if (HasFailure()) return;
      EXPECT_GT(world.reused(), 100u);
      EXPECT_EQ(world.ahead() > 50, plan_ahead);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, PrefixStateWorld, testing::ValuesIn(test::kv_worlds(5)));

}  // namespace
}  // namespace tenon
