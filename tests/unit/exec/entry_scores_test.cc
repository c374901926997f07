#include "core/exec/entry_scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two groups that are scored around one that is not, and a batch of two sequences: three known rows
// and two drafts over 7 entries, one row over 4.
class EntryScoresTest : public testing::Test {
 protected:
  EntryScoresTest() {
    for (LayerId i = 0; i < 3; ++i) {
      layers_[i].group = i;
      layers_[i].query_heads = 2;
    }
    shape_.layer_count = shape_.group_count = 3;
    shape_.groups = groups_;
    shape_.layers = layers_;
    const GroupId scored[] = {0, 2};
    scores_.load(shape_, scored);
    sequences_[0].rows = 5;
    sequences_[0].drafts = 2;
    sequences_[1].first_row = 5;
    sequences_[1].rows = 1;
    for (BatchGroup& group : in_groups_) group.kv_tokens = kv_tokens_;
    batch_.rows = 6;
    batch_.sequences = sequences_;
    batch_.groups = in_groups_;
    scores_.begin(batch_);
  }

  KvGroup groups_[3];
  LayerShape layers_[3];
  ModelShape shape_;
  const uint32_t kv_tokens_[2] = {7, 4};
  BatchSequence sequences_[2];
  BatchGroup in_groups_[3];
  BatchView batch_;
  EntryScores scores_;
};

TEST_F(EntryScoresTest, known_rows_share_a_line_and_drafts_have_their_own) {
  const auto rows = scores_.rows(0);
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0], rows[2]);
  rows[0][0] += 1;
  rows[2][6] += 2;
  rows[3][1] += 3;
  rows[4][1] += 4;
  rows[5][3] += 5;
  EXPECT_THAT(scores_.line(0, 0, EntryScores::kKnownRows), ElementsAre(1, 0, 0, 0, 0, 0, 2));
  EXPECT_THAT(scores_.line(0, 0, EntryScores::line_of(0)), ElementsAre(0, 3, 0, 0, 0, 0, 0));
  EXPECT_THAT(scores_.line(0, 0, EntryScores::line_of(1)), ElementsAre(0, 4, 0, 0, 0, 0, 0));
  EXPECT_THAT(scores_.line(0, 1, EntryScores::kKnownRows), ElementsAre(0, 0, 0, 5));
  EXPECT_THAT(scores_.line(2, 1, EntryScores::kKnownRows), ElementsAre(0, 0, 0, 0));
}

TEST_F(EntryScoresTest, begin_at_zero_in_every_step_and_only_where_they_are_wanted) {
  scores_.rows(2)[5][0] = 9;
  scores_.begin(batch_);
  EXPECT_THAT(scores_.line(2, 1, EntryScores::kKnownRows), ElementsAre(0, 0, 0, 0));
  EXPECT_TRUE(scores_.rows(1).empty());
  EXPECT_TRUE(EntryScores().rows(0).empty());
}

TEST_F(EntryScoresTest, more_weight_than_rows_have_is_an_error) {
  scores_.rows(0)[5][0] = uint64_t{2} << 24;
  EXPECT_TRUE(scores_.check().ok()) << "two heads gave all they have";
  scores_.rows(0)[5][1] = 1000;
  EXPECT_THAT(std::string(scores_.check().message()),
              HasSubstr("entries got more weight than 1 rows and 2 heads have"));
  scores_.begin(batch_);
  scores_.rows(2)[3][0] = UINT64_MAX;
  EXPECT_FALSE(scores_.check().ok()) << "a draft is one row, and sums do not wrap around";
}

}  // namespace
}  // namespace tenon
