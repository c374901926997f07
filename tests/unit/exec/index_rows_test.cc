#include "core/exec/index_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<uint32_t> highest(const std::vector<float>& scores, uint32_t most) {
  std::vector<uint32_t> order(scores.size());
  choose_highest(scores, most, order);
  order.resize(std::min<size_t>(most, order.size()));
  return order;
}

TEST(ChooseHighest, places_come_in_their_order) {
  EXPECT_THAT(highest({1, 5, 2, 4, 3}, 3), ElementsAre(1, 3, 4));
  EXPECT_THAT(highest({1, 5}, 3), ElementsAre(0, 1));
}

TEST(ChooseHighest, of_equal_scores_the_first_are_chosen) {
  EXPECT_THAT(highest({0, 2, 0, 0, 2, 0}, 4), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(highest({0, -0.0f, 0, 0}, 2), ElementsAre(0, 1));
  EXPECT_THAT(highest(std::vector<float>(100, 1.0f), 3), ElementsAre(0, 1, 2));
}

TEST(ChooseHighest, what_is_no_number_comes_last) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(highest({nan, -3, nan, 2, -4}, 3), ElementsAre(1, 3, 4));
  EXPECT_THAT(highest({nan, nan, nan}, 2), ElementsAre(0, 1));
}

// Two sequences, of which one has seen four entries and the other none.
class RowsToChooseTest : public testing::Test {
 protected:
  RowsToChooseTest() {
    groups_[0].slots = slots_;
    batch_.rows = 5;
    batch_.sequences = sequences_;
    batch_.groups = groups_;
  }
  std::vector<uint32_t> entries(const SeeingRow& row) const {
    std::vector<uint32_t> all;
    for (uint32_t n = 0; n < row.seen; ++n) all.push_back(to_choose_.entry(row, n));
    return all;
  }

  const std::vector<uint32_t> slots_ = {4, 5, 6, 0, 1};
  const std::vector<BatchSequence> sequences_ = {{.seq = 1, .first_row = 0, .rows = 3},
                                                 {.seq = 2, .first_row = 3, .rows = 2}};
  BatchGroup groups_[1];
  BatchView batch_;
  RowsToChoose to_choose_;
};

TEST_F(RowsToChooseTest, all_rows_of_a_sequence_choose_once_one_sees_too_much) {
  to_choose_.begin(batch_, 0, 6);
  EXPECT_TRUE(to_choose_.has_sequence(0));
  EXPECT_FALSE(to_choose_.has_sequence(1));
  ASSERT_EQ(to_choose_.rows().size(), 3u);
  EXPECT_EQ(to_choose_.rows()[0].seen, 5u);
  EXPECT_THAT(entries(to_choose_.rows()[2]), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(to_choose_.sequence_of(4), 1u);
  to_choose_.begin(batch_, 0, 7);
  EXPECT_TRUE(to_choose_.rows().empty());
}

TEST_F(RowsToChooseTest, siblings_see_their_own_paths) {
  const std::vector<int32_t> parents = {-1, 0, 0, -1, 3};
  batch_.tree_parents = parents;
  to_choose_.begin(batch_, 0, 5);
  ASSERT_EQ(to_choose_.rows().size(), 3u);
  EXPECT_THAT(entries(to_choose_.rows()[1]), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(entries(to_choose_.rows()[2]), ElementsAre(0, 1, 2, 3, 4, 6));
  to_choose_.begin(batch_, 0, 6);
  EXPECT_TRUE(to_choose_.rows().empty());
}

ModelPlan plan_of(const std::vector<IndexPlan>& indices) {
  ModelPlan plan;
  plan.hidden = 8;
  plan.vocabulary = 9;
  plan.context_tokens = 32;
  for (const IndexPlan& index : indices) {
    LayerPlan& layer = plan.layers.emplace_back();
    layer.attention.heads = 2;
    layer.attention.kv_heads = 1;
    layer.attention.head_dim = 12;
    layer.latent = {
        .q_rank = 6, .kv_rank = 8, .nope_dim = 4, .rope_dim = 4, .v_dim = 4, .norm = {}};
    layer.index = index;
  }
  return plan;
}
constexpr IndexPlan kOwn{.chosen = 5, .heads = 2, .dim = 6, .rope_dim = 4, .norm = {}};
constexpr IndexPlan kShared{.chosen = 5, .norm = {}};

TEST(IndexedLayersTest, keys_have_a_group_of_their_own_with_a_storage_for_each_choice) {
  const ModelPlan plan = plan_of({kOwn, kShared, kOwn});
  const ModelShapeStorage shape(plan, 32);
  ASSERT_EQ(shape.shape().group_count, 2u);
  EXPECT_EQ(shape.shape().ledger_group, 0u);
  const KvGroup& keys = shape.shape().groups[1];
  EXPECT_TRUE(keeps_index_keys(keys));
  EXPECT_FALSE(keeps_index_keys(shape.shape().groups[0]));
  EXPECT_EQ(keys.layers, 2u);
  EXPECT_EQ(keys.k_dim, 6u);
  IndexedLayers indexed;
  ASSERT_TRUE(indexed.load(plan, shape.shape()).ok());
  EXPECT_EQ(indexed.most, 5u);
  EXPECT_EQ(indexed.attended, 0u);
  EXPECT_EQ(indexed.keys, 1u);
  EXPECT_THAT(indexed.key_index, ElementsAre(0, 0, 1));
}

TEST(IndexedLayersTest, what_chooses_nothing_or_something_else_is_refused) {
  const auto refusal = [](const ModelPlan& plan) {
    const ModelShapeStorage shape(plan, 32);
    IndexedLayers indexed;
    return std::string(indexed.load(plan, shape.shape()).message());
  };
  EXPECT_THAT(refusal(plan_of({kShared, kOwn})), HasSubstr("layer 0 shares a choice of positions"));
  EXPECT_THAT(refusal(plan_of({kOwn, {}})), HasSubstr("others to all that they see"));
  ModelPlan plain = plan_of({kOwn});
  plain.layers[0].latent = {};
  EXPECT_THAT(refusal(plain), HasSubstr("with latent attention alone"));
  EXPECT_EQ(refusal(plan_of({{}, {}})), "");
}

}  // namespace
}  // namespace tenon
