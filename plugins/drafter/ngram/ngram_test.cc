#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/drafter.h>

#include <random>
#include <vector>

#include "plugins/drafter/ngram/ngram_index.h"
#include "tests/support/option_values.h"
#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

using ngram::Match;
using ngram::NgramIndex;
using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<TokenId>;

Tokens proposed(const NgramIndex& index, const Tokens& text, uint32_t most) {
  Tokens out(most);
  out.resize(index.propose(text, out));
  return out;
}

Tokens propose(const Tokens& text, uint32_t min_ngram, uint32_t max_ngram, uint32_t most,
               Match match = Match::earliest) {
  NgramIndex index(min_ngram, max_ngram, match);
  index.extend(text);
  return proposed(index, text, most);
}

TEST(Ngram, proposes_nothing_where_the_end_has_not_occurred_before) {
  EXPECT_THAT(propose({1, 2, 3, 4, 1, 2, 3, 5, 6}, 2, 2, 2), IsEmpty());
  EXPECT_THAT(propose({}, 1, 4, 3), IsEmpty());
  EXPECT_THAT(propose({5}, 1, 4, 3), IsEmpty());
}

TEST(Ngram, proposes_what_followed_the_first_time) {
  EXPECT_THAT(propose({1, 2, 3, 4, 1, 2, 3}, 2, 2, 3), ElementsAre(4, 1, 2));
  EXPECT_THAT(propose({1, 2, 3, 4, 1, 2, 3}, 1, 1, 3), ElementsAre(4, 1, 2));
  EXPECT_THAT(propose({1, 2, 3, 4, 1, 2, 3}, 2, 2, 2), ElementsAre(4, 1));
}

TEST(Ngram, takes_the_earliest_of_several_places) {
  EXPECT_THAT(propose({1, 3, 6, 2, 3, 4, 1, 2, 3}, 2, 2, 3), ElementsAre(4, 1, 2));
  EXPECT_THAT(propose({1, 3, 6, 2, 3, 4, 1, 2, 3}, 1, 1, 2), ElementsAre(6, 2));
  const Tokens thrice = {1, 2, 3, 100, 1, 2, 3, 200, 1, 2, 3, 300, 1, 2, 3};
  EXPECT_THAT(propose(thrice, 3, 3, 2), ElementsAre(100, 1));
}

TEST(Ngram, takes_the_latest_place_where_that_is_asked_for) {
  const Tokens thrice = {1, 2, 3, 100, 1, 2, 3, 200, 1, 2, 3, 300, 1, 2, 3};
  EXPECT_THAT(propose(thrice, 3, 3, 2, Match::latest), ElementsAre(300, 1));
}

TEST(Ngram, prefers_the_longest_match) {
  // The last three tokens also stand at the beginning, the last four only later.
  const Tokens text = {2, 3, 4, 50, 1, 2, 3, 4, 60, 1, 2, 3, 4};
  EXPECT_THAT(propose(text, 3, 4, 2), ElementsAre(60, 1));
  EXPECT_THAT(propose(text, 3, 3, 2), ElementsAre(50, 1));
}

TEST(Ngram, goes_on_with_its_own_tokens_at_the_end_of_the_text) {
  EXPECT_THAT(propose({8, 1, 2, 1, 2}, 2, 2, 5), ElementsAre(1, 2, 1, 2, 1));
  EXPECT_THAT(propose({7, 7, 7}, 1, 2, 4), ElementsAre(7, 7, 7, 7));
}

TEST(Ngram, knows_the_same_whether_tokens_came_one_by_one_or_together) {
  std::mt19937 random(3);
  Tokens text;
  for (const Match match : {Match::earliest, Match::latest}) {
    text.clear();
    NgramIndex grown(1, 4, match);
    for (uint32_t i = 0; i < 600; ++i) {
      text.push_back(static_cast<TokenId>(random() % 5));
      if (random() % 3 == 0) continue;  // several at once now and then
      grown.extend(text);
      ASSERT_EQ(proposed(grown, text, 6), propose(text, 1, 4, 6, match)) << i;
    }
  }
}

// The longest n-gram at the end, found by looking at every place.
Tokens by_hand(const Tokens& text, size_t min_ngram, size_t max_ngram, size_t most) {
  for (size_t n = max_ngram; n >= min_ngram; --n) {
    for (size_t end = n; n < text.size() && end < text.size(); ++end) {
      if (!std::equal(text.end() - static_cast<ptrdiff_t>(n), text.end(),
                      text.begin() + static_cast<ptrdiff_t>(end - n))) {
        continue;
      }
      Tokens out = text;
      for (size_t i = 0; i < most; ++i) out.push_back(out[end + i]);
      return {out.begin() + static_cast<ptrdiff_t>(text.size()), out.end()};
    }
  }
  return {};
}

TEST(Ngram, finds_what_a_search_through_all_places_finds) {
  std::mt19937 random(11);
  for (uint32_t round = 0; round < 200; ++round) {
    Tokens text(1 + random() % 120);
    for (TokenId& token : text) token = static_cast<TokenId>(random() % (2 + round % 9));
    ASSERT_EQ(propose(text, 2, 4, 5), by_hand(text, 2, 4, 5)) << "round " << round;
  }
}

class NgramDrafter : public testing::Test {
 protected:
  using Options = PluginInstance<Drafter>::Options;
  void make(Options options = {}) {
    options.push_back({"adaptive", option_of(false)});
    drafter_ = std::make_unique<PluginInstance<Drafter>>("ngram", host_, options);
  }
  Drafter& drafter() { return **drafter_; }

  uint32_t offered(SeqId seq, const Tokens& history, uint32_t most) {
    const DraftRequest request{.seq = seq, .history = history, .max_tokens = most, .key = {}};
    uint32_t offer = 0;
    EXPECT_TRUE(drafter().offer({&request, 1}, {&offer, 1}).ok());
    return offer;
  }
  Tokens drafted(SeqId seq, const Tokens& history, uint32_t most) {
    Tokens room(most);
    const DraftRequest request{.seq = seq, .history = history, .max_tokens = most, .key = {}};
    DraftOut out;
    out.tokens = room;
    EXPECT_TRUE(drafter().draft({&request, 1}, {&out, 1}).ok());
    room.resize(out.count);
    return room;
  }

  TestHost host_;
  std::unique_ptr<PluginInstance<Drafter>> drafter_;
};

TEST_F(NgramDrafter, offers_no_more_than_it_was_asked_for_or_is_configured) {
  make({{"max_draft_tokens", option_of(int64_t{4})}});
  ASSERT_TRUE(drafter().begin(1, kNoSeq).ok());
  const Tokens history = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2};
  EXPECT_EQ(offered(1, history, 3), 3u);
  EXPECT_EQ(offered(1, history, 9), 4u);
  EXPECT_THAT(drafted(1, history, 2), ElementsAre(3, 4));
}

TEST_F(NgramDrafter, keeps_sequences_apart) {
  make();
  ASSERT_TRUE(drafter().begin(1, kNoSeq).ok());
  ASSERT_TRUE(drafter().begin(2, kNoSeq).ok());
  const Tokens first = {1, 2, 9, 1, 2}, second = {3, 4, 8, 3, 4};
  const DraftRequest requests[] = {{.seq = 1, .history = first, .max_tokens = 1, .key = {}},
                                   {.seq = 2, .history = second, .max_tokens = 1, .key = {}}};
  uint32_t offers[2] = {};
  ASSERT_TRUE(drafter().offer(requests, offers).ok());
  EXPECT_THAT(drafted(1, first, 1), ElementsAre(9));
  EXPECT_THAT(drafted(2, second, 1), ElementsAre(8));
}

TEST_F(NgramDrafter, says_after_rejections_what_a_fresh_one_says) {
  make({{"min_ngram", option_of(int64_t{1})}});
  std::mt19937 random(5);
  ASSERT_TRUE(drafter().begin(1, kNoSeq).ok());
  Tokens history = {0, 1, 2};
  for (uint32_t step = 0; step < 150; ++step) {
    const uint32_t offer = offered(1, history, 4);
    const Tokens draft = offer > 0 ? drafted(1, history, offer) : Tokens();
    const auto fresh = static_cast<SeqId>(1000 + step);
    ASSERT_TRUE(drafter().begin(fresh, kNoSeq).ok());
    ASSERT_EQ(offered(fresh, history, 4), offer);
    if (offer > 0) {
      ASSERT_EQ(drafted(fresh, history, offer), draft);
    }
    EXPECT_TRUE(drafter().end(fresh).ok());
    const auto accepted = static_cast<uint32_t>(random() % (draft.size() + 1));
    history.insert(history.end(), draft.begin(), draft.begin() + accepted);
    history.push_back(static_cast<TokenId>(random() % 4));
    ASSERT_TRUE(drafter().accept(1, history, static_cast<uint32_t>(draft.size()), accepted).ok());
  }
}

TEST_F(NgramDrafter, refuses_a_shortest_run_that_is_longer_than_the_longest) {
  const PluginDescriptor& descriptor = *find_descriptor("ngram");
  alignas(16) std::byte options[256];
  ASSERT_LE(descriptor.options_bytes, sizeof(options));
  descriptor.construct_options(options);
  EXPECT_TRUE(descriptor.validate(options).ok());
  descriptor.options[0].store(options, option_of(int64_t{5}));
  EXPECT_EQ(descriptor.validate(options).message(),
            "min_ngram is 5, more than max_ngram, 4 – lower it, or raise max_ngram");
}

}  // namespace
}  // namespace tenon
