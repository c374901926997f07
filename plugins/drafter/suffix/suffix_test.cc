#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/drafter.h>

#include <algorithm>
#include <random>
#include <vector>

#include "plugins/drafter/suffix/suffix_automaton.h"
#include "tests/support/option_values.h"
#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

using suffix::SuffixAutomaton;
using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<TokenId>;

SuffixAutomaton automaton_of(const Tokens& text) {
  SuffixAutomaton automaton;
  for (const TokenId token : text) automaton.push(token);
  return automaton;
}

// Length of the longest suffix that also ends before the end of the text.
uint32_t longest_by_hand(const Tokens& text) {
  for (size_t n = text.size() - 1; n > 0; --n) {
    for (size_t end = n; end < text.size(); ++end) {
      if (std::equal(text.end() - static_cast<ptrdiff_t>(n), text.end(),
                     text.begin() + static_cast<ptrdiff_t>(end - n))) {
        return static_cast<uint32_t>(n);
      }
    }
  }
  return 0;
}

TEST(Automaton, knows_the_longest_repeated_suffix_after_every_token) {
  std::mt19937 random(2);
  for (uint32_t alphabet : {1u, 2u, 3u, 8u}) {
    Tokens text;
    SuffixAutomaton automaton;
    for (uint32_t i = 0; i < 150; ++i) {
      text.push_back(static_cast<TokenId>(random() % alphabet));
      automaton.push(text.back());
      const SuffixAutomaton::State state = automaton.longest_repeated();
      const uint32_t length = state == SuffixAutomaton::kNone ? 0 : automaton.length(state);
      ASSERT_EQ(length, longest_by_hand(text)) << "alphabet " << alphabet << " token " << i;
    }
  }
}

TEST(Automaton, knows_what_followed_first_and_what_followed_most_often) {
  // After 1 2 came 5 once and first, then 6 twice.
  const SuffixAutomaton automaton = automaton_of({1, 2, 5, 1, 2, 6, 1, 2, 6, 1, 2});
  const SuffixAutomaton::State state = automaton.longest_repeated();
  SuffixAutomaton::State pair = state;
  while (automaton.length(pair) > 2) pair = automaton.link(pair);
  ASSERT_EQ(automaton.length(pair), 2u);
  EXPECT_EQ(automaton.earliest(pair).token, 5);
  EXPECT_EQ(automaton.most_frequent(pair).token, 6);
  EXPECT_NEAR(automaton.most_frequent(pair).share, 2.0 / 3, 1e-9);
}

class SuffixDrafter : public testing::Test {
 protected:
  using Options = PluginInstance<Drafter>::Options;
  // The proposal of a fresh drafter after `history`.
  Tokens propose(const Tokens& history, uint32_t most, Options options = {}) {
    options.push_back({"adaptive", option_of(false)});
    PluginInstance<Drafter> drafter("suffix", host_, options);
    EXPECT_TRUE(drafter->begin(1, kNoSeq).ok());
    return propose(*drafter, 1, history, most);
  }
  static Tokens propose(Drafter& drafter, SeqId seq, const Tokens& history, uint32_t most) {
    const DraftRequest request{.seq = seq, .history = history, .max_tokens = most, .key = {}};
    uint32_t offer = 0;
    EXPECT_TRUE(drafter.offer({&request, 1}, {&offer, 1}).ok());
    Tokens room(most);
    DraftOut out;
    out.tokens = room;
    EXPECT_TRUE(drafter.draft({&request, 1}, {&out, 1}).ok());
    EXPECT_EQ(out.count, offer);
    room.resize(out.count);
    return room;
  }
  TestHost host_;
};

TEST_F(SuffixDrafter, proposes_nothing_where_nothing_repeats) {
  EXPECT_THAT(propose({1, 2, 3, 4, 5}, 4), IsEmpty());
  EXPECT_THAT(propose({1}, 4), IsEmpty());
}

TEST_F(SuffixDrafter, copies_what_followed_a_long_match) {
  EXPECT_THAT(propose({1, 2, 3, 4, 5, 6, 9, 1, 2, 3}, 3), ElementsAre(4, 5, 6));
}

TEST_F(SuffixDrafter, asks_for_a_match_of_some_length) {
  EXPECT_THAT(propose({1, 2, 3, 9, 3}, 2), IsEmpty());
  EXPECT_THAT(propose({1, 2, 3, 9, 3}, 1, {{"min_match", option_of(int64_t{1})}}), ElementsAre(9));
}

TEST_F(SuffixDrafter, follows_the_most_frequent_way_or_the_earliest) {
  const Tokens history = {1, 2, 5, 7, 1, 2, 6, 8, 3, 1, 2, 6, 8, 4, 1, 2};
  EXPECT_THAT(propose(history, 2), ElementsAre(6, 8));
  EXPECT_THAT(propose(history, 2, {{"follow", option_of(int64_t{1})}}), ElementsAre(5, 7));
}

TEST_F(SuffixDrafter, stops_where_a_way_becomes_unlikely) {
  // After 1 2 each of four tokens came once.
  const Tokens history = {1, 2, 3, 1, 2, 4, 1, 2, 5, 1, 2, 6, 1, 2};
  EXPECT_THAT(propose(history, 4, {{"min_share", option_of(0.3)}}), IsEmpty());
  EXPECT_EQ(propose(history, 1, {{"min_share", option_of(0.2)}}).size(), 1u);
}

TEST_F(SuffixDrafter, goes_on_in_a_text_that_repeats_itself) {
  EXPECT_THAT(propose({4, 4, 4, 4, 4}, 6), ElementsAre(4, 4, 4, 4, 4, 4));
  EXPECT_THAT(propose({1, 2, 3, 1, 2, 3, 1, 2, 3}, 5), ElementsAre(1, 2, 3, 1, 2));
}

TEST_F(SuffixDrafter, says_after_rejections_what_a_fresh_one_says) {
  PluginInstance<Drafter> drafter("suffix", host_, {{"adaptive", option_of(false)}});
  ASSERT_TRUE(drafter->begin(1, kNoSeq).ok());
  std::mt19937 random(9);
  Tokens history = {0, 1, 2};
  for (uint32_t step = 0; step < 120; ++step) {
    const Tokens draft = propose(*drafter, 1, history, 5);
    ASSERT_EQ(draft, propose(history, 5)) << "step " << step;
    const auto accepted = static_cast<uint32_t>(random() % (draft.size() + 1));
    history.insert(history.end(), draft.begin(), draft.begin() + accepted);
    history.push_back(static_cast<TokenId>(random() % 3));
    ASSERT_TRUE(drafter->accept(1, history, static_cast<uint32_t>(draft.size()), accepted).ok());
  }
}

TEST_F(SuffixDrafter, costs_about_as_much_a_token_in_long_texts_as_in_short_ones) {
  // Each token of any text: states and transitions stay within their bounds, so no step rescans.
  std::mt19937 random(4);
  SuffixAutomaton automaton;
  for (uint32_t i = 0; i < 200000; ++i) automaton.push(static_cast<TokenId>(random() % 50));
  EXPECT_EQ(automaton.size(), 200000u);
  SuffixAutomaton same;
  for (uint32_t i = 0; i < 200000; ++i) same.push(1);
  EXPECT_EQ(same.length(same.longest_repeated()), 199999u);
}

}  // namespace
}  // namespace tenon
