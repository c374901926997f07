#include "core/exec/cpu/blocks/expert_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

struct Picked {
  std::vector<uint32_t> experts;
  std::vector<float> factors;
};

Picked pick(const ExpertsPlan& plan, const std::vector<float>& scores,
            const std::vector<float>& correction = {}) {
  ExpertChoice choice;
  choice.reserve(plan.routed(), plan.chosen, 1);
  std::vector<float> memory(size_t{3} * plan.routed());
  choice.choose(plan, scores, correction, 0, memory);
  Picked picked;
  for (uint32_t place = 0; place < plan.chosen; ++place) {
    picked.experts.push_back(choice.expert(place));
    picked.factors.push_back(choice.factor(place));
  }
  return picked;
}

// e^x of these are 1, 2, 3, 4, in another order.
const std::vector<float> kLogs = {std::log(2.0f), 0.0f, std::log(4.0f), std::log(3.0f)};

TEST(ExpertChoice, factors_are_the_softmax_of_all_scores) {
  const Picked picked = pick({.count = 4, .chosen = 2}, kLogs);
  EXPECT_THAT(picked.experts, ElementsAre(2, 3));
  EXPECT_NEAR(picked.factors[0], 0.4f, 1e-6);
  EXPECT_NEAR(picked.factors[1], 0.3f, 1e-6);
}

TEST(ExpertChoice, normalised_factors_add_up_to_their_scale) {
  const Picked picked = pick({.count = 4, .chosen = 2, .normalised = true, .scale = 2.5f}, kLogs);
  EXPECT_NEAR(picked.factors[0], 2.5f * 4 / 7, 1e-6);
  EXPECT_NEAR(picked.factors[1], 2.5f * 3 / 7, 1e-6);
}

TEST(ExpertChoice, the_softmax_may_be_of_the_chosen_alone) {
  const Picked picked =
      pick({.count = 4, .chosen = 3, .scoring = ExpertScoring::softmax_of_chosen}, kLogs);
  EXPECT_THAT(picked.experts, ElementsAre(2, 3, 0));
  EXPECT_NEAR(picked.factors[0], 4.0f / 9, 1e-6);
  EXPECT_NEAR(picked.factors[2], 2.0f / 9, 1e-6);
}

TEST(ExpertChoice, experts_that_do_nothing_are_chosen_as_others_are) {
  const ExpertsPlan plan{.count = 2, .chosen = 2, .idle = 2};
  const Picked picked = pick(plan, kLogs);
  EXPECT_THAT(picked.experts, ElementsAre(2, 3));
  EXPECT_NEAR(picked.factors[0], 0.4f, 1e-6);
  ExpertChoice choice;
  choice.reserve(plan.routed(), plan.chosen, 1);
  std::vector<float> memory(size_t{3} * plan.routed());
  choice.choose(plan, kLogs, {}, 0, memory);
  choice.sort(plan, 1);
  EXPECT_TRUE(choice.of(0).rows.empty() && choice.of(1).rows.empty());
}

TEST(ExpertChoice, of_equal_scores_the_first_experts_are_chosen) {
  EXPECT_THAT(pick({.count = 5, .chosen = 3}, {1, 2, 2, 1, 1}).experts, ElementsAre(1, 2, 0));
  EXPECT_THAT(pick({.count = 4, .chosen = 4}, {0, 0, 0, 0}).experts, ElementsAre(0, 1, 2, 3));
}

// The correction moves the choice and leaves the factors alone.
TEST(ExpertChoice, a_correction_chooses_but_does_not_weigh) {
  const ExpertsPlan plan{
      .count = 3, .chosen = 2, .scoring = ExpertScoring::sigmoid, .correction = true};
  const std::vector<float> scores = {0.0f, 2.0f, -2.0f};
  EXPECT_THAT(pick(plan, scores).experts, ElementsAre(1, 0));
  const Picked moved = pick(plan, scores, {-1.0f, 0.0f, 0.5f});
  EXPECT_THAT(moved.experts, ElementsAre(1, 2));
  EXPECT_NEAR(moved.factors[1], 1.0 / (1.0 + std::exp(2.0)), 1e-6);
}

// Groups of two: the best expert is in the first, the best pair in the last.
TEST(ExpertChoice, groups_are_judged_by_their_best_expert_or_their_two_best) {
  ExpertsPlan plan{.count = 6, .chosen = 2, .scoring = ExpertScoring::sigmoid, .groups = 3};
  const std::vector<float> scores = {3.0f, -9.0f, -1.0f, -1.0f, 2.0f, 1.0f};
  EXPECT_THAT(pick(plan, scores).experts, ElementsAre(0, 1));
  plan.group_score = GroupScore::best_two;
  EXPECT_THAT(pick(plan, scores).experts, ElementsAre(4, 5));
  plan.groups_chosen = 2;
  EXPECT_THAT(pick(plan, scores).experts, ElementsAre(0, 4));
}

TEST(ExpertChoice, equal_groups_count_in_their_order) {
  const ExpertsPlan plan{.count = 6, .chosen = 2, .groups = 3, .groups_chosen = 2};
  EXPECT_THAT(pick(plan, {1, 0, 1, 0, 1, 0}).experts, ElementsAre(0, 2));
}

TEST(ExpertChoice, scores_that_are_no_numbers_still_choose_experts_that_there_are) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(pick({.count = 4, .chosen = 2}, {nan, nan, nan, nan}).experts, ElementsAre(0, 1));
  EXPECT_THAT(pick({.count = 4,
                    .chosen = 3,
                    .scoring = ExpertScoring::sigmoid,
                    .groups = 2,
                    .groups_chosen = 2},
                   {nan, 1, nan, 2})
                  .experts,
              ElementsAre(3, 1, 0));
}

TEST(ExpertChoice, rows_are_sorted_by_expert_in_their_own_order) {
  const ExpertsPlan plan{.count = 4, .chosen = 2};
  ExpertChoice choice;
  choice.reserve(6, 3, 5);  // a layer with more of both is reserved for as well
  std::vector<float> memory(18);
  const std::vector<std::vector<float>> rows = {{9, 1, 5, 0}, {0, 3, 2, 1}, {4, 0, 0, 7}};
  for (uint32_t row = 0; row < 3; ++row) choice.choose(plan, rows[row], {}, row, memory);
  choice.sort(plan, 3);
  const auto sorted = [&](uint32_t expert) {
    const ExpertChoice::OfExpert of = choice.of(expert);
    return std::pair(std::vector<uint32_t>(of.rows.begin(), of.rows.end()),
                     std::vector<uint32_t>(of.places.begin(), of.places.end()));
  };
  using Lists = std::pair<std::vector<uint32_t>, std::vector<uint32_t>>;
  EXPECT_EQ(sorted(0), (Lists{{0, 2}, {0, 5}}));
  EXPECT_EQ(sorted(1), (Lists{{1}, {2}}));
  EXPECT_EQ(sorted(2), (Lists{{0, 1}, {1, 3}}));
  EXPECT_EQ(sorted(3), (Lists{{2}, {4}}));
  EXPECT_EQ(choice.of(2).factors[1], choice.factor(3));
}

}  // namespace
}  // namespace tenon
