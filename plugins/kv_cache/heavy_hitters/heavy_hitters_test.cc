#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/kv_cache.h>

#include <map>
#include <numeric>

#include "tests/support/attention/kv_case.h"
#include "tests/support/attention/kv_world.h"

namespace tenon {
namespace {

using test::option;
using test::tokens;
using testing::ElementsAre;
using testing::HasSubstr;

// Blocks of 4: two sinks and six heavy ones, a window of 8, and 4 go at a time. The first go at 19.
class HeavyHitters : public test::KvCase {
 protected:
  static constexpr uint32_t kStride = 4, kFirst = 19;

  HeavyHitters()
      : KvCase("heavy_hitters", {{"sink_tokens", option(2)},
                                 {"heavy_tokens", option(5)},
                                 {"window_tokens", option(7)},
                                 {"stride_tokens", option(3)}}) {}

  const KvEviction& stated() {
    return *static_cast<const KvEviction*>(kv_->extension(kKvEviction));
  }
  Status give(SeqId seq, const std::vector<uint64_t>& sums, GroupId group = 0) {
    const auto* scores = static_cast<const KvScores*>(kv_->extension(kKvScores));
    return scores->add(scores->self, seq, group, sums);
  }
  // Carries moves out over memory that knows the position of what each slot holds.
  void carry() {
    for (const KvMove& move : moves()) {
      for (uint32_t i = 0; i < move.tokens; ++i) {
        memory_[at(move.to, i)] = memory_[at(move.from, i)];
      }
    }
  }
  static std::tuple<int, BlockId, uint32_t> at(const KvPlace& place, uint32_t i) {
    return {static_cast<int>(place.tier), place.block, place.token + i};
  }
  uint32_t evicted(SeqId seq) {
    KvTableView view;
    EXPECT_TRUE(kv().table(seq, 0, view).ok());
    return view.evicted;
  }
  // The positions that the next row of a sequence of `computed` tokens sees before it.
  std::vector<uint32_t> held(SeqId seq, uint32_t computed) {
    const std::vector<BlockId> blocks = table(seq);
    std::vector<uint32_t> found;
    for (uint32_t entry = 0; entry < computed - evicted(seq); ++entry) {
      found.push_back(memory_[{0, blocks[entry / 4], entry % 4}]);
    }
    return found;
  }
  // A step of `rows` after `from`; each entry whose position `heavy` names is given its weight.
  void step(SeqId seq, uint32_t from, uint32_t rows, const std::map<uint32_t, uint64_t>& heavy) {
    grow(seq, tokens(from + rows), from);
    carry();
    const std::vector<BlockId> blocks = table(seq);
    std::vector<uint64_t> sums;
    const uint32_t gone = evicted(seq);
    for (uint32_t p = from; p < from + rows; ++p) {
      memory_[{0, blocks[(p - gone) / 4], (p - gone) % 4}] = p;
    }
    for (const uint32_t position : held(seq, from + rows)) {
      const auto found = heavy.find(position);
      sums.push_back(found == heavy.end() ? 0 : found->second);
    }
    EXPECT_TRUE(give(seq, sums).ok());
    resolve(seq, tokens(from + rows), from, from + rows);
    next_step();
    carry();
  }
  // To `end`, in steps of at most `most` that end where entries go.
  void steps(SeqId seq, uint32_t from, uint32_t end, uint32_t most,
             const std::map<uint32_t, uint64_t>& heavy) {
    while (from < end) {
      const uint32_t alike = from < kFirst ? kFirst - from : kStride - (from - kFirst) % kStride;
      const uint32_t rows = std::min({most, alike, end - from});
      step(seq, from, rows, heavy);
      from += rows;
    }
  }
  std::map<std::tuple<int, BlockId, uint32_t>, uint32_t> memory_;
};

TEST_F(HeavyHitters, says_what_rows_see_in_whole_blocks) {
  EXPECT_EQ(kv_->extension(kKvEviction), nullptr) << "blocks are not known yet";
  EXPECT_EQ(kv_->extension(kKvScores), nullptr);
  bind(4, 20);
  EXPECT_EQ(stated().first, kFirst);
  EXPECT_EQ(stated().every, kStride);
  EXPECT_EQ(stated().most_tokens, 20u);
  EXPECT_EQ(stated().numerics, "heavy_hitters(sinks=2 heavy=6 window=8 stride=4)");
  EXPECT_NE(kv_->extension(kKvScores), nullptr);
  EXPECT_EQ(kv_->extension("kv_scores/2"), nullptr);
}

TEST_F(HeavyHitters, keeps_all_until_a_stride_is_behind_the_window) {
  bind(4, 20);
  begin(1);
  steps(1, 0, 18, 18, {});
  EXPECT_EQ(held(1, 18).size(), 18u);
  steps(1, 18, 19, 1, {});
  EXPECT_EQ(held(1, 19).size(), 15u);
}

TEST_F(HeavyHitters, without_any_weight_keeps_the_first) {
  bind(4, 20);
  begin(1);
  steps(1, 0, 23, 19, {});
  EXPECT_THAT(held(1, 23), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22));
}

TEST_F(HeavyHitters, keeps_what_got_most_in_the_places_of_what_got_least) {
  bind(4, 20);
  begin(1);
  const std::map<uint32_t, uint64_t> heavy = {{2, 5}, {4, 9}, {7, 1}, {9, 7}, {11, 2}, {15, 30}};
  steps(1, 0, 19, 19, heavy);
  // Of 2 to 7 and 8 to 11 stay 2, 4, 7, 9, 11 and, of those without weight, the first.
  EXPECT_THAT(held(1, 19), ElementsAre(0, 1, 2, 3, 4, 9, 11, 7, 12, 13, 14, 15, 16, 17, 18));
  steps(1, 19, 23, 4, heavy);
  EXPECT_THAT(held(1, 23), ElementsAre(0, 1, 2, 15, 4, 9, 11, 7, 16, 17, 18, 19, 20, 21, 22));
  EXPECT_EQ(host_.counters["heavy_tokens"], 3u);
}

TEST_F(HeavyHitters, weights_follow_what_is_moved) {
  bind(4, 20);
  begin(1);
  steps(1, 0, 19, 19, {{9, 100}, {10, 50}});
  // From here on nobody attends to 9 and 10, and what they got stays theirs.
  const std::map<uint32_t, uint64_t> later = {{12, 1}, {13, 1}, {14, 1}, {15, 1}, {16, 1}, {17, 1},
                                              {18, 1}, {19, 1}, {20, 1}, {21, 1}, {22, 1}, {23, 1}};
  steps(1, 19, 43, 4, later);
  const std::vector<uint32_t> now = held(1, 43);
  EXPECT_THAT(now, testing::Contains(9));
  EXPECT_THAT(now, testing::Contains(10));
  EXPECT_THAT(now, testing::Not(testing::Contains(8)));
}

TEST_F(HeavyHitters, the_sinks_stay_whatever_others_got) {
  bind(4, 20);
  begin(1);
  std::map<uint32_t, uint64_t> heavy;
  for (uint32_t p = 2; p < 60; ++p) heavy[p] = p;
  steps(1, 0, 60, 60, heavy);
  EXPECT_EQ(held(1, 60)[0], 0u);
  EXPECT_EQ(held(1, 60)[1], 1u);
}

TEST_F(HeavyHitters, what_stays_does_not_depend_on_how_a_text_was_cut) {
  std::map<uint32_t, uint64_t> heavy;
  for (uint32_t p = 0; p < 100; ++p) heavy[p] = p * 7919 % 101;
  std::vector<std::vector<uint32_t>> all;
  for (const uint32_t most : {100u, 5u, 3u}) {
    memory_.clear();
    remake({{"sink_tokens", option(2)},
            {"heavy_tokens", option(5)},
            {"window_tokens", option(7)},
            {"stride_tokens", option(3)}});
    bind(4, 20);
    begin(1);
    // A row gives once: what a step's rows give is in proportion to their number.
    for (uint32_t from = 0; from < 100;) {
      const uint32_t alike = from < kFirst ? kFirst - from : kStride - (from - kFirst) % kStride;
      const uint32_t rows = std::min({most, alike, 100 - from});
      std::map<uint32_t, uint64_t> given;
      for (const auto& [position, weight] : heavy) given[position] = weight * rows;
      for (uint32_t p = from; p < from + rows; ++p) given[p] = heavy[p] * (from + rows - p);
      step(1, from, rows, given);
      from += rows;
    }
    all.push_back(held(1, 100));
  }
  EXPECT_EQ(all[1], all[0]);
  EXPECT_EQ(all[2], all[0]);
}

TEST_F(HeavyHitters, a_fork_goes_on_with_entries_and_weights_of_its_own) {
  bind(4, 20);
  begin(1);
  steps(1, 0, 21, 19, {{5, 9}, {11, 4}});
  const std::vector<uint32_t> before = held(1, 21);
  fork(2, 1, 21);
  next_step();
  carry();
  EXPECT_EQ(held(2, 21), before);
  const std::vector<BlockId> parent = table(1), child = table(2);
  EXPECT_NE(child[0], parent[0]);
  EXPECT_NE(child[1], parent[1]);
  EXPECT_EQ(child[2], parent[2]) << "the window is shared";
  steps(1, 21, 27, 4, {{12, 50}, {13, 60}});
  EXPECT_EQ(held(2, 21), before);
  steps(2, 21, 27, 4, {{14, 50}, {15, 60}});
  EXPECT_THAT(held(1, 27), testing::IsSupersetOf({5u, 11u, 12u, 13u}));
  EXPECT_THAT(held(2, 27), testing::IsSupersetOf({5u, 11u, 14u, 15u}));
  EXPECT_THAT(held(2, 27), testing::Not(testing::Contains(12u)));
}

TEST_F(HeavyHitters, a_fork_begins_where_its_parent_is) {
  bind(4, 20);
  begin(1);
  steps(1, 0, 10, 10, {});
  EXPECT_EQ(std::string(kv().begin({2, {}, 600, 1, 9}).message()),
            "a fork at token 9 – what weight entries got is known behind token 10 alone");
  fork(2, 1, 10);
  EXPECT_TRUE(release(1).ok());
  EXPECT_EQ(table(2).size(), 3u);
}

TEST_F(HeavyHitters, a_fork_that_finds_no_room_for_its_copies_waits) {
  bind(4, 5);
  begin(1);
  steps(1, 0, 16, 16, {});
  EXPECT_EQ(kv().begin({2, {}, 600, 1, 16}).code(), StatusCode::out_of_kv);
  expect_sound();
}

TEST_F(HeavyHitters, swapped_out_keeps_its_weights_and_computed_anew_forgets_them) {
  bind(4, 8, 0, 6);
  begin(1);
  const std::map<uint32_t, uint64_t> heavy = {{10, 9}, {11, 8}};
  steps(1, 0, 22, 19, heavy);
  const std::vector<uint32_t> before = held(1, 22);
  ASSERT_TRUE(release(1, ReleaseHow::swap).ok());
  carry();
  memory_.erase(memory_.lower_bound({0, 0, 0}), memory_.lower_bound({1, 0, 0}));
  next_step();
  KvGrant grant;
  ASSERT_TRUE(test::grow(kv(), 1, tokens(60), 0, 1, 30, grant).ok());
  EXPECT_EQ(grant.restored, 22u);
  EXPECT_EQ(grant.granted, 1u) << "at 23 the next ones go";
  carry();
  EXPECT_EQ(held(1, 22), before);
  memory_[{0, table(1)[18 / 4], 18 % 4}] = 22;
  ASSERT_TRUE(give(1, std::vector<uint64_t>(19, 1)).ok());
  resolve(1, tokens(60), 22, 23);
  next_step();
  carry();
  EXPECT_THAT(held(1, 23), testing::IsSupersetOf({10u, 11u}));
  ASSERT_TRUE(release(1, ReleaseHow::recompute).ok());
  steps(1, 0, 23, 19, {});
  EXPECT_THAT(held(1, 23), testing::Not(testing::Contains(10u)));
}

TEST_F(HeavyHitters, takes_weights_of_sequences_and_groups_that_evict_alone) {
  bind({{.block_tokens = 4, .blocks = 10}, {.block_tokens = 2, .blocks = 20, .window_tokens = 4}});
  begin(1);
  EXPECT_TRUE(give(1, std::vector<uint64_t>(20)).ok());
  EXPECT_THAT(std::string(give(1, std::vector<uint64_t>(21)).message()),
              HasSubstr("weights of 21 entries of sequence 1 in KV group 0 – expected at most 20"));
  EXPECT_FALSE(give(1, std::vector<uint64_t>(4), 1).ok());
  EXPECT_FALSE(give(7, std::vector<uint64_t>(4)).ok());
}

TEST_F(HeavyHitters, has_nothing_to_evict_where_all_layers_have_windows) {
  EXPECT_THAT(
      std::string(try_bind({{.block_tokens = 4, .blocks = 10, .window_tokens = 4}}).message()),
      HasSubstr("kv_cache 'heavy_hitters' has nothing to evict"));
  EXPECT_EQ(try_bind({{.block_tokens = 4, .blocks = 9}, {.block_tokens = 8, .blocks = 9}}).code(),
            StatusCode::unsupported);
}

TEST_F(HeavyHitters, refuses_layers_that_count_distances_in_entries) {
  const float slope = 0.5f;
  LayerShape layer;
  layer.alibi_slopes = &slope;
  shape_.layer_count = 1;
  shape_.layers = &layer;
  EXPECT_THAT(std::string(try_bind({{.block_tokens = 4, .blocks = 10}}).message()),
              HasSubstr("layer 0 weighs distances (ALiBi)"));
}

// Nobody gives any weight, so what stays follows from the position: tables, copies, swapping and
// steps in flight are held against memory that remembers.
class HeavyHittersWorld : public testing::TestWithParam<std::pair<uint64_t, bool>> {};

TEST_P(HeavyHittersWorld, lets_everybody_read_their_own) {
  const auto [seed, plan_ahead] = GetParam();
  const test::KvTestGroup evicting{
      .blocks = 24, .swap_blocks = 12, .sink_tokens = 4, .kept_tokens = 8, .stride_tokens = 8};
  const test::KvTestGroup window{
      .dtype = DType::i8, .block_tokens = 2, .blocks = 40, .swap_blocks = 24, .window_tokens = 9};
  test::KvWorldOptions worlds[] = {{.groups = {evicting}}, {.groups = {evicting, window}}};
  for (test::KvWorldOptions& options : worlds) {
    options.plan_ahead = plan_ahead;
    options.trees = false;
    TestHost host;
    PluginInstance<KVCacheManager> kv("heavy_hitters", host,
                                      {{"sink_tokens", option(1)},
                                       {"heavy_tokens", option(3)},
                                       {"window_tokens", option(8)},
                                       {"stride_tokens", option(8)}});
    test::KvWorld world(*kv, options, seed);
    world.run();
    if (HasFailure()) return;
    EXPECT_EQ(world.reused(), 0u);
    EXPECT_GT(world.cut(), 20u);
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, HeavyHittersWorld, testing::ValuesIn(test::kv_worlds(6)));

}  // namespace
}  // namespace tenon
