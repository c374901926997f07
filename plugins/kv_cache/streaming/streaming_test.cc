#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/kv_cache.h>

#include "tests/support/attention/kv_case.h"
#include "tests/support/attention/kv_world.h"

namespace tenon {
namespace {

using test::option;
using test::tokens;
using testing::ElementsAre;

// Blocks of 4: a block of sinks, a window of 2 blocks, and one goes at a time.
class Streaming : public test::KvCase {
 protected:
  Streaming()
      : KvCase("streaming", {{"sink_tokens", option(3)},
                             {"window_tokens", option(7)},
                             {"stride_tokens", option(1)}}) {}

  // As many steps as it takes, none over a place where blocks go.
  void compute_to(SeqId seq, uint32_t end) {
    for (uint32_t from = 0; from < end;) {
      const uint32_t next = from < 15 ? 15 : from + 4 - (from - 15) % 4;
      compute(seq, from, std::min(next, end) - from);
      from = std::min(next, end);
    }
  }
  uint32_t evicted(SeqId seq) {
    KvTableView view;
    EXPECT_TRUE(kv().table(seq, 0, view).ok());
    return view.evicted;
  }
  const KvEviction& stated() {
    return *static_cast<const KvEviction*>(kv_->extension(kKvEviction));
  }
};

TEST_F(Streaming, says_what_rows_see_in_whole_blocks) {
  EXPECT_EQ(kv_->extension(kKvEviction), nullptr) << "blocks are not known yet";
  bind(4, 20);
  EXPECT_EQ(stated().first, 15u);
  EXPECT_EQ(stated().every, 4u);
  EXPECT_EQ(stated().most_tokens, 16u);
  EXPECT_EQ(stated().numerics, "streaming(sinks=4 window=8 stride=4)");
  EXPECT_EQ(kv_->extension("kv_eviction/2"), nullptr);
}

TEST_F(Streaming, knows_the_blocks_that_were_agreed_upon) {
  const ResolvedFact agreed{.key = "kv.block_tokens", .word = {}, .number = 16};
  const Plugin made("streaming", host_, {}, {&agreed, 1});
  EXPECT_EQ(static_cast<const KvEviction*>(made.extension(kKvEviction))->numerics,
            "streaming(sinks=16 window=1024 stride=128)");
}

TEST_F(Streaming, keeps_all_until_a_stride_is_behind_the_window) {
  bind(4, 20);
  begin(1);
  compute(1, 0, 15);
  EXPECT_EQ(usage().reserved_tokens, 12u) << "its next row sees 4 sinks and positions 8 to 15";
  EXPECT_EQ(evicted(1), 4u);
  begin(2);
  compute(2, 0, 14);
  EXPECT_EQ(evicted(2), 0u);
  EXPECT_EQ(table(2).size(), 4u);
}

TEST_F(Streaming, closes_the_gap_in_its_table) {
  bind(4, 20);
  begin(1);
  grow(1, tokens(15));
  const std::vector<BlockId> before = table(1);
  ASSERT_EQ(before.size(), 4u);
  resolve(1, tokens(15), 0, 15);
  EXPECT_THAT(table(1), ElementsAre(before[0], before[2], before[3]));
  EXPECT_TRUE(moves().empty());
}

TEST_F(Streaming, holds_no_more_however_long_a_text_gets) {
  bind(4, 20);
  begin(1);
  for (uint32_t from = 0; from < 500; ++from) {
    compute(1, from, 1);
    ASSERT_LE(usage().reserved_tokens, 16u);
    ASSERT_EQ(evicted(1), from < 14 ? 0u : (from - 14) / 4 * 4 + 4);
  }
  EXPECT_EQ(match(1, tokens(501), 600).tokens_needed, 4u);
}

TEST_F(Streaming, ends_a_grant_where_blocks_go) {
  bind(4, 20);
  begin(1);
  KvGrant grant;
  ASSERT_TRUE(test::grow(kv(), 1, tokens(40), 0, 1, 40, grant).ok());
  EXPECT_EQ(grant.granted, 15u);
  resolve(1, tokens(40), 0, 15);
  next_step();
  ASSERT_TRUE(test::grow(kv(), 1, tokens(40), 15, 1, 25, grant).ok());
  EXPECT_EQ(grant.granted, 4u);
  expect_sound();
}

TEST_F(Streaming, refuses_rows_on_both_sides_of_an_eviction) {
  bind(4, 20);
  begin(1);
  KvGrant grant;
  const test::Tokens ids = tokens(16);
  EXPECT_EQ(test::grow(kv(), 1, ids, 0, 16, 16, grant).message(),
            "sequence 1 asked for 16 tokens at once behind 0 – what rows see changes at 15, and a "
            "step ends in front of it");
  EXPECT_TRUE(table(1).empty());
}

TEST_F(Streaming, needs_no_more_for_a_prompt_than_it_will_hold) {
  bind(4, 5);
  begin(1);
  EXPECT_EQ(match(1, tokens(400), 400).tokens_needed, 16u);
  compute_to(1, 39);
  EXPECT_EQ(match(1, tokens(400), 400).tokens_needed, 4u);
  EXPECT_EQ(match(1, tokens(400)).tokens_held, 12u);
}

TEST_F(Streaming, shares_sinks_and_window_with_a_fork) {
  bind(4, 20);
  begin(1);
  compute_to(1, 33);
  fork(2, 1, 33);
  EXPECT_EQ(table(2), table(1));
  EXPECT_EQ(evicted(2), 20u);
  EXPECT_EQ(usage().reserved_tokens, 16u);
  EXPECT_EQ(kv().begin({3, {}, 600, 1, 20}).message(),
            "a fork at token 20 – the parent's window has left what it would see");
  ASSERT_TRUE(release(1).ok());
  EXPECT_EQ(table(2).size(), 4u);
}

TEST_F(Streaming, swaps_what_is_left) {
  bind(4, 8, 0, 6);
  begin(1);
  compute_to(1, 33);
  const std::vector<BlockId> before = table(1);
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  EXPECT_EQ(usage().swapped_tokens, 13u) << "positions 0 to 3 and 24 to 32";
  const std::vector<KvMove> out = moves();
  ASSERT_EQ(out.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i].from.block, before[i]);
  next_step();
  EXPECT_EQ(match(1, tokens(60), 60).tokens_needed, 16u);
  KvGrant grant;
  ASSERT_TRUE(test::grow(kv(), 1, tokens(60), 0, 27, 27, grant).ok());
  EXPECT_EQ(grant.restored, 33u);
  EXPECT_EQ(grant.granted, 2u) << "at 35 the next block goes";
  const std::vector<KvMove> in = moves();
  ASSERT_EQ(in.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(in[i].from.block, out[i].to.block);
    EXPECT_EQ(in[i].to.block, table(1)[i]);
    EXPECT_EQ(in[i].tokens, i < 3 ? 4u : 1u);
  }
  resolve(1, tokens(60), 33, 35);
  EXPECT_EQ(usage().swapped_tokens, 0u);
}

TEST_F(Streaming, evicts_where_layers_see_everything) {
  bind({{.block_tokens = 4, .blocks = 10}, {.block_tokens = 2, .blocks = 20, .window_tokens = 4}});
  begin(1);
  compute_to(1, 31);
  KvTableView windowed;
  ASSERT_TRUE(kv().table(1, 1, windowed).ok());
  EXPECT_EQ(windowed.evicted, 0u);
  EXPECT_EQ(windowed.blocks.size(), 16u);
  EXPECT_EQ(evicted(1), 20u);
}

TEST_F(Streaming, has_nothing_to_evict_where_all_layers_have_windows) {
  EXPECT_EQ(try_bind({{.block_tokens = 4, .blocks = 10, .window_tokens = 4}}).message(),
            "no layer of the model attends to all tokens – kv_cache 'streaming' has nothing to "
            "evict; kv_cache 'paged' holds as little");
  EXPECT_EQ(try_bind({{.block_tokens = 4, .blocks = 9}, {.block_tokens = 8, .blocks = 9}}).code(),
            StatusCode::unsupported);
}

TEST_F(Streaming, may_keep_no_sinks) {
  remake({{"sink_tokens", option(0)}, {"window_tokens", option(4)}, {"stride_tokens", option(4)}});
  bind(4, 20);
  EXPECT_EQ(stated().numerics, "streaming(sinks=0 window=4 stride=4)");
  begin(1);
  compute(1, 0, 7);
  EXPECT_EQ(evicted(1), 4u);
  EXPECT_EQ(table(1).size(), 1u);
}

class StreamingWorld : public testing::TestWithParam<std::pair<uint64_t, bool>> {};

TEST_P(StreamingWorld, lets_everybody_read_what_follows_from_the_position) {
  const test::KvTestGroup evicting{
      .blocks = 20, .swap_blocks = 12, .sink_tokens = 4, .kept_tokens = 8, .stride_tokens = 8};
  test::KvTestGroup scarce = evicting, fine = evicting;
  scarce.blocks = 7;
  fine.block_tokens = 1;
  fine.blocks = 24;
  fine.sink_tokens = 3;
  fine.kept_tokens = 7;
  fine.stride_tokens = 1;
  const test::KvTestGroup window{
      .dtype = DType::i8, .block_tokens = 2, .blocks = 40, .swap_blocks = 24, .window_tokens = 9};
  const test::KvTestGroup states{
      .kind = KvKind::recurrent, .block_tokens = 1, .blocks = 20, .swap_blocks = 6};
  const test::KvWorldOptions worlds[] = {{.groups = {evicting}},
                                         {.groups = {scarce}},
                                         {.groups = {fine}},
                                         {.groups = {evicting, window}},
                                         {.groups = {evicting, states}}};
  const auto [seed, plan_ahead] = GetParam();
  for (test::KvWorldOptions options : worlds) {
    options.plan_ahead = plan_ahead;
    TestHost host;
    const test::KvTestGroup& kept = options.groups[0];
    PluginInstance<KVCacheManager> kv("streaming", host,
                                      {{"sink_tokens", option(kept.sink_tokens)},
                                       {"window_tokens", option(kept.kept_tokens)},
                                       {"stride_tokens", option(kept.stride_tokens)}});
    test::KvWorld world(*kv, options, seed);
    world.run();
    if (HasFailure()) return;
    EXPECT_EQ(world.reused(), 0u);
    EXPECT_GT(world.cut(), 20u);
    EXPECT_GT(world.restored(), 15u);
    EXPECT_EQ(world.ahead() > 0, plan_ahead);
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, StreamingWorld, testing::ValuesIn(test::kv_worlds(8)));

}  // namespace
}  // namespace tenon
