#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "core/exec/host_kv.h"
#include "core/exec/ref/blocks/attention.h"

namespace tenon {
namespace {

// One layer of two query heads over one head of K and V, and a sequence of six rows in one step.
class RefAttentionTest : public testing::Test {
 protected:
  static constexpr uint32_t kRows = 6;

  RefAttentionTest() {
    group_ = {.layers = 1, .kv_heads = 1, .k_dim = 4, .v_dim = 4};
    layer_.query_heads = 2;
    layer_.scale = 0.5f;
    shape_.layer_count = shape_.group_count = 1;
    shape_.groups = &group_;
    shape_.layers = &layer_;
    for (uint32_t i = 0; i < kRows * 8; ++i) q_.push_back(std::sin(0.7f * static_cast<float>(i)));
    for (uint32_t i = 0; i < kRows * 4; ++i) {
      k_.push_back(std::cos(1.3f * static_cast<float>(i)));
      v_.push_back(std::sin(2.1f * static_cast<float>(i) + 1));
    }
  }

  std::vector<float> attend() {
    KvGroupGeometry sizes{DType::f32, 4, 3, 0, 0};
    EXPECT_TRUE(kv_.allocate(shape_, {16, 1, 1, &sizes}).ok());
    const std::vector<BlockId> blocks = {2, 0};
    std::vector<uint32_t> slots(kRows);
    std::iota(slots.begin(), slots.end(), 0u);
    const uint32_t length = kRows;
    KvTableView table;
    table.blocks = blocks;
    const BatchGroup in_group{slots, {&length, 1}, {&table, 1}};
    BatchSequence sequence;
    sequence.rows = kRows;
    BatchView batch;
    batch.rows = kRows;
    batch.tree_parents = parents_;
    batch.sees_to = sees_to_;
    batch.sequences = {&sequence, 1};
    batch.groups = {&in_group, 1};
    const ref::Attention attention{shape_, kv_.storage(), batch};
    attention.store(0, k_.data(), group_.v_inside_k() ? nullptr : v_.data());
    std::vector<float> out(kRows * 2 * group_.v_dim);
    const std::vector<uint64_t*> rows(sums_.empty() ? 0 : kRows, sums_.data());
    attention.attend(0, q_.data(), out.data(), rows);
    return out;
  }

  // What query head `head` of `row` makes of these rows of K and V, with `extra` added to each
  // score, and a further score in the softmax.
  std::vector<double> expected(uint32_t row, uint32_t head, const std::vector<uint32_t>& keys,
                               const std::vector<double>& extra = {}, const float* sink = nullptr) {
    std::vector<double> weights;
    double total = sink != nullptr ? std::exp(double{*sink}) : 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      double score = 0;
      for (uint32_t d = 0; d < 4; ++d) {
        score += double{q_[(row * 2 + head) * 4 + d]} * k_[keys[i] * 4 + d];
      }
      weights.push_back(std::exp(0.5 * score + (extra.empty() ? 0 : extra[i])));
      total += weights.back();
    }
    const std::vector<float>& values = group_.v_inside_k() ? k_ : v_;
    std::vector<double> out(group_.v_dim);
    for (size_t i = 0; i < keys.size(); ++i) {
      for (uint32_t d = 0; d < group_.v_dim; ++d) {
        out[d] += weights[i] / total * values[keys[i] * 4 + d];
      }
    }
    return out;
  }
  void expect_row(const std::vector<float>& out, uint32_t row, uint32_t head,
                  const std::vector<double>& want) const {
    for (uint32_t d = 0; d < group_.v_dim; ++d) {
      EXPECT_NEAR(out[(row * 2 + head) * group_.v_dim + d], want[d], 1e-6)
          << "row " << row << " head " << head << " element " << d;
    }
  }

  KvGroup group_;
  LayerShape layer_;
  ModelShape shape_;
  HostKv kv_;
  std::vector<float> q_, k_, v_;
  std::vector<int32_t> parents_;
  std::vector<uint32_t> sees_to_;
  std::vector<uint64_t> sums_;  // of all rows together; empty: nobody asks
};

TEST_F(RefAttentionTest, a_row_sees_those_before_it_and_itself) {
  const std::vector<float> out = attend();
  expect_row(out, 0, 1, expected(0, 1, {0}));
  expect_row(out, 5, 0, expected(5, 0, {0, 1, 2, 3, 4, 5}));
}

TEST_F(RefAttentionTest, a_window_is_the_groups) {
  group_.window_tokens = 2;
  const std::vector<float> out = attend();
  expect_row(out, 0, 0, expected(0, 0, {0}));
  expect_row(out, 4, 1, expected(4, 1, {3, 4}));
}

TEST_F(RefAttentionTest, of_a_latent_group_v_is_the_beginning_of_k) {
  group_.kind = KvKind::latent;
  group_.v_dim = 3;
  const std::vector<float> out = attend();
  expect_row(out, 0, 0, {k_[0], k_[1], k_[2]});
  expect_row(out, 4, 1, expected(4, 1, {0, 1, 2, 3, 4}));
  EXPECT_EQ(kv_.bytes(), 3u * 4 * 4 * sizeof(float)) << "K alone";
}

TEST_F(RefAttentionTest, a_sink_takes_part_in_the_softmax_alone) {
  const float sinks[] = {0.3f, -40.0f};
  layer_.sinks = sinks;
  const std::vector<float> out = attend();
  expect_row(out, 3, 0, expected(3, 0, {0, 1, 2, 3}, {}, &sinks[0]));
  expect_row(out, 3, 1, expected(3, 1, {0, 1, 2, 3}));
}

TEST_F(RefAttentionTest, slopes_weigh_the_distance_of_a_key) {
  const float slopes[] = {0.25f, 2.0f};
  layer_.alibi_slopes = slopes;
  group_.window_tokens = 3;
  const std::vector<float> out = attend();
  expect_row(out, 5, 0, expected(5, 0, {3, 4, 5}, {-0.5, -0.25, 0}));
  expect_row(out, 1, 1, expected(1, 1, {0, 1}, {-2, 0}));
}

// 0 ← 1 ← 3 ← 5, and 0 ← 2 ← 4 as another branch. Distances and windows count along the path.
TEST_F(RefAttentionTest, a_row_of_a_tree_sees_the_rows_that_lead_to_it) {
  parents_ = {-1, 0, 0, 1, 2, 3};
  std::vector<float> out = attend();
  expect_row(out, 2, 0, expected(2, 0, {0, 2}));
  expect_row(out, 4, 1, expected(4, 1, {0, 2, 4}));
  expect_row(out, 5, 0, expected(5, 0, {0, 1, 3, 5}));
  group_.window_tokens = 3;
  const float slopes[] = {0.25f, 2.0f};
  layer_.alibi_slopes = slopes;
  out = attend();
  expect_row(out, 4, 0, expected(4, 0, {0, 2, 4}, {-0.5, -0.25, 0}));
  expect_row(out, 5, 0, expected(5, 0, {1, 3, 5}, {-0.5, -0.25, 0}));
}

TEST_F(RefAttentionTest, a_row_may_see_rows_behind_it) {
  sees_to_ = {0, 3, 3, 3, 4, 5};
  const std::vector<float> out = attend();
  expect_row(out, 1, 0, expected(1, 0, {0, 1, 2, 3}));
  expect_row(out, 3, 1, expected(3, 1, {0, 1, 2, 3}));
  expect_row(out, 4, 0, expected(4, 0, {0, 1, 2, 3, 4}));
}

// V is 1 for one entry alone, so that what comes out is the weight that it got.
TEST_F(RefAttentionTest, says_what_weight_each_entry_got_of_all_rows_and_heads) {
  const float sinks[] = {0.5f, -1.0f};
  layer_.sinks = sinks;
  sums_.assign(kRows, 0);
  (void)attend();
  const std::vector<uint64_t> sums = std::exchange(sums_, {});
  for (uint32_t entry = 0; entry < kRows; ++entry) {
    std::fill(v_.begin(), v_.end(), 0.0f);
    std::fill_n(v_.begin() + entry * 4, 4, 1.0f);
    const std::vector<float> out = attend();
    double weight = 0;
    for (size_t item = 0; item < out.size(); item += 4) weight += out[item];
    EXPECT_NEAR(static_cast<double>(sums[entry]) * 0x1.0p-24, weight, 1e-5) << "entry " << entry;
  }
}

}  // namespace
}  // namespace tenon
