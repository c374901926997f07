// Recurrent groups: slots of state, of which every step writes new ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/kv_cache.h>

#include <utility>
#include <vector>

#include "tests/support/attention/kv_case.h"

namespace tenon {
namespace {

using test::tokens;
using testing::ElementsAre;

class States : public test::KvCase {
 protected:
  States() : KvCase("paged") {}

  void bind(uint32_t slots, uint32_t swap_slots = 0) {
    KvCase::bind({{.blocks = 40, .swap_blocks = 20},
                  {.kind = KvKind::recurrent,
                   .dtype = DType::u8,
                   .block_tokens = 1,
                   .blocks = slots,
                   .swap_blocks = swap_slots}});
  }
  std::vector<uint32_t> ends(SeqId seq) {
    KvTableView view;
    EXPECT_TRUE(kv().table(seq, 1, view).ok());
    EXPECT_EQ(view.ends.size(), view.blocks.size());
    return {view.ends.begin(), view.ends.end()};
  }
  std::vector<BlockId> slots(SeqId seq) { return table(seq, 1); }
  std::vector<KvMove> state_moves() {
    std::vector<KvMove> made = moves();
    std::erase_if(made, [](const KvMove& move) { return move.group != 1; });
    return made;
  }
};

TEST_F(States, has_a_slot_wherever_a_step_may_end) {
  bind(10);
  begin(1);
  EXPECT_THAT(ends(1), ElementsAre(0u));
  EXPECT_THAT(slots(1), ElementsAre(kNoBlock));
  ASSERT_TRUE(plan(1, 0, 20).ok());
  EXPECT_THAT(ends(1), ElementsAre(0u, 20u)) << "a chunk of a prompt ends in one place";
  EXPECT_EQ(slots(1)[0], kNoBlock);
  ASSERT_TRUE(settle(1, 0, 20).ok());
  EXPECT_THAT(ends(1), ElementsAre(20u));
  ASSERT_TRUE(plan(1, 20, 21, 3).ok());
  EXPECT_THAT(ends(1), ElementsAre(20u, 21u, 22u, 23u, 24u));
  EXPECT_EQ(usage(1).reserved_tokens, 5u);
  EXPECT_EQ(usage(1).used_tokens, 1u);
}

TEST_F(States, has_a_slot_at_the_end_of_a_grant_that_does_not_reach_what_is_known) {
  bind(10);
  begin(1);
  const test::Tokens ids = tokens(20);
  KvGrant grant;
  ASSERT_TRUE(
      kv().grow({.seq = 1, .tokens = ids, .known_tokens = 20, .at_least = 1, .at_most = 8}, grant)
          .ok());
  EXPECT_THAT(ends(1), ElementsAre(0u, 8u));
}

TEST_F(States, keeps_the_slot_that_came_true) {
  bind(10);
  begin(1);
  ASSERT_TRUE(plan(1, 0, 5, 3).ok());
  const std::vector<BlockId> written = slots(1);
  ASSERT_TRUE(settle(1, 0, 6).ok());
  EXPECT_THAT(slots(1), ElementsAre(written[2]));
  EXPECT_EQ(usage(1).free_tokens, 6u) << "the others wait for the step";
  ASSERT_TRUE(kv().step_done(step_).ok());
  EXPECT_EQ(usage(1).free_tokens, 9u);
}

TEST_F(States, goes_back_to_where_a_step_started) {
  bind(10);
  begin(1);
  compute(1, tokens(5));
  const std::vector<BlockId> before = slots(1);
  ASSERT_TRUE(plan(1, 5, 6, 2).ok());
  ASSERT_TRUE(settle(1, 5, 0).ok());
  EXPECT_EQ(slots(1), before);
}

TEST_F(States, does_not_hand_out_what_a_step_started_from_before_it_is_done) {
  bind(10);
  begin(1);
  compute(1, tokens(5));
  ASSERT_TRUE(plan(1, 5, 6).ok());
  ASSERT_TRUE(settle(1, 5, 1).ok());
  EXPECT_EQ(usage(1).free_tokens, 8u);
  ASSERT_TRUE(kv().step_done(step_).ok());
  EXPECT_EQ(usage(1).free_tokens, 9u);
}

TEST_F(States, shares_the_slot_of_a_fork_and_copies_nothing) {
  bind(10);
  begin(1);
  compute(1, tokens(6));
  fork(2, 1, 6);
  EXPECT_EQ(slots(1), slots(2));
  EXPECT_EQ(usage(1).reserved_tokens, 1u);
  ASSERT_TRUE(plan(1, 6, 7).ok());
  ASSERT_TRUE(plan(2, 6, 7).ok());
  EXPECT_EQ(slots(1)[0], slots(2)[0]);
  EXPECT_NE(slots(1)[1], slots(2)[1]);
  EXPECT_TRUE(state_moves().empty());
}

TEST_F(States, cannot_fork_where_the_state_is_gone) {
  bind(10);
  begin(1);
  compute(1, tokens(8));
  EXPECT_EQ(kv().begin({2, {}, 600, 1, 4}).message(),
            "a fork at token 4 – the parent's recurrent state is there behind token 8 alone");
  EXPECT_EQ(release(2).code(), StatusCode::invalid_argument) << "nothing has begun";
}

TEST_F(States, starts_from_what_the_step_in_flight_writes) {
  bind(10);
  begin(1);
  ASSERT_TRUE(plan(1, 0, 6).ok());
  KvTableView in_flight;
  ASSERT_TRUE(kv().table(1, 1, in_flight).ok());
  ASSERT_TRUE(kv().step_begin(2).ok());
  ASSERT_TRUE(plan(1, 6, 7).ok());
  EXPECT_THAT(ends(1), ElementsAre(6u, 7u));
  EXPECT_EQ(slots(1)[0], in_flight.blocks[1]);
  EXPECT_THAT(in_flight.ends, ElementsAre(0u, 6u)) << "its own table is as it was";
  const std::vector<BlockId> planned = slots(1);
  ASSERT_TRUE(settle(1, 0, 6, 1).ok());
  EXPECT_EQ(slots(1), planned);
  ASSERT_TRUE(settle(1, 6, 1).ok());
  EXPECT_THAT(ends(1), ElementsAre(7u));
}

TEST_F(States, cannot_start_behind_drafts_in_flight) {
  bind(10);
  begin(1);
  ASSERT_TRUE(plan(1, 0, 6, 2).ok());
  ASSERT_TRUE(kv().step_begin(2).ok());
  EXPECT_EQ(plan(1, 6, 7).message(),
            "sequence 1 cannot go on behind token 6 – a step in flight may end elsewhere");
  EXPECT_EQ(plan(1, 8, 9).code(), StatusCode::invalid_argument);
  EXPECT_TRUE(settle(1, 0, 7).ok());
}

TEST_F(States, moves_the_slot_of_an_end_when_a_grant_is_trimmed) {
  bind(10);
  begin(1);
  ASSERT_TRUE(plan(1, 0, 20, 2).ok());
  const std::vector<BlockId> written = slots(1);
  ASSERT_TRUE(kv().trim(1, 21).ok());
  EXPECT_THAT(ends(1), ElementsAre(0u, 20u, 21u));
  ASSERT_TRUE(kv().trim(1, 7).ok());
  EXPECT_THAT(ends(1), ElementsAre(0u, 7u));
  EXPECT_EQ(slots(1)[1], written[1]);
  expect_sound();
  EXPECT_TRUE(settle(1, 0, 7).ok());
}

TEST_F(States, says_where_a_step_cannot_have_ended) {
  bind(10);
  begin(1);
  ASSERT_TRUE(plan(1, 0, 6).ok());
  EXPECT_EQ(settle(1, 0, 5).message(),
            "sequence 1 cannot stop behind token 5 – no slot has the state there");
  const uint32_t path[] = {0, 1, 2, 3, 4, 7};
  ASSERT_TRUE(plan(1, 0, 6, 3).ok());
  EXPECT_EQ(test::resolve(kv(), 1, tokens(6), 0, path, 6).message(),
            "sequence 1 keeps a path of a tree – recurrent state has slots for a chain of drafts "
            "only");
  EXPECT_TRUE(settle(1, 0, 6).ok());
}

TEST_F(States, grants_fewer_drafts_where_slots_are_short) {
  bind(3);
  begin(1);
  KvGrant grant;
  const test::Tokens ids = tokens(5);
  ASSERT_TRUE(
      kv().grow({.seq = 1, .tokens = ids, .known_tokens = 5, .at_least = 1, .at_most = 9}, grant)
          .ok());
  EXPECT_EQ(grant.granted, 7u);
  begin(2);
  EXPECT_EQ(plan(2, 0, 4).code(), StatusCode::out_of_kv);
}

TEST_F(States, swaps_a_slot) {
  bind(4, 2);
  begin(1);
  compute(1, tokens(9));
  const std::vector<BlockId> before = slots(1);
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  EXPECT_THAT(ends(1), ElementsAre(0u));
  EXPECT_EQ(usage(1).swapped_tokens, 1u);
  const std::vector<KvMove> out = state_moves();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].from.block, before[0]);
  EXPECT_EQ(out[0].tokens, 1u);
  next_step();
  const KvGrant grant = grow(1, tokens(10));
  EXPECT_EQ(grant.restored, 9u);
  EXPECT_THAT(ends(1), ElementsAre(9u, 10u));
  const std::vector<KvMove> in = state_moves();
  ASSERT_EQ(in.size(), 1u);
  EXPECT_EQ(in[0].from.tier, KvTier::swap);
  EXPECT_EQ(in[0].to.block, slots(1)[0]);
}

TEST_F(States, serves_a_model_without_attention) {
  KvCase::bind({{.kind = KvKind::recurrent, .block_tokens = 1, .blocks = 4}});
  begin(1);
  EXPECT_EQ(match(1, tokens(30), 30).tokens_needed, 1u);
  EXPECT_EQ(match(1, tokens(30), 32).tokens_needed, 3u);
  compute(1, tokens(30));
  EXPECT_EQ(match(1, tokens(30)).tokens_held, 1u);
  EXPECT_EQ(usage().reserved_tokens, 1u);
}

}  // namespace
}  // namespace tenon
