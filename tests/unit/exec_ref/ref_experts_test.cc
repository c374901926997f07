// The oracle's choice of experts against cases worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/exec/ref/blocks/experts.h"

namespace tenon::ref {
namespace {

using testing::ElementsAre;

std::vector<uint32_t> experts_of(const std::vector<Chosen>& chosen) {
  std::vector<uint32_t> experts;
  for (const Chosen& one : chosen) experts.push_back(one.expert);
  return experts;
}

TEST(RefExperts, factors_are_shares_of_the_softmax_and_may_be_normalised) {
  const std::vector<float> scores = {std::log(1.0f), std::log(5.0f), std::log(4.0f)};
  ExpertsPlan plan{.count = 3, .chosen = 2};
  const auto shares = choose(plan, scores, {});
  EXPECT_THAT(experts_of(shares), ElementsAre(1, 2));
  EXPECT_NEAR(shares[0].factor, 0.5, 1e-6);
  EXPECT_NEAR(shares[1].factor, 0.4, 1e-6);
  plan.normalised = true;
  plan.scale = 3.0f;
  EXPECT_NEAR(choose(plan, scores, {})[0].factor, 3.0 * 5 / 9, 1e-6);
  plan = {.count = 3, .chosen = 2, .scoring = ExpertScoring::softmax_of_chosen};
  EXPECT_NEAR(choose(plan, scores, {})[1].factor, 4.0 / 9, 1e-6);
}

TEST(RefExperts, equal_experts_and_equal_groups_count_in_their_order) {
  EXPECT_THAT(experts_of(choose({.count = 4, .chosen = 2}, std::vector<float>(4, 1.0f), {})),
              ElementsAre(0, 1));
  const ExpertsPlan grouped{.count = 6, .chosen = 3, .groups = 3, .groups_chosen = 2};
  const std::vector<float> scores = {0, 1, 1, 0, 1, 0};
  EXPECT_THAT(experts_of(choose(grouped, scores, {})), ElementsAre(1, 2, 0));
}

TEST(RefExperts, a_correction_chooses_but_does_not_weigh) {
  const ExpertsPlan plan{.count = 4,
                         .chosen = 1,
                         .scoring = ExpertScoring::sigmoid,
                         .correction = true,
                         .groups = 2,
                         .group_score = GroupScore::best_two};
  const std::vector<float> scores = {0, 0, 1, -3};
  // Pairs: 0.5 + 0.5 against 0.731 + 0.047.
  EXPECT_THAT(experts_of(choose(plan, scores, {})), ElementsAre(0));
  const std::vector<float> correction = {0, 0, 0, 0.9f};
  const auto chosen = choose(plan, scores, correction);
  EXPECT_THAT(experts_of(chosen), ElementsAre(3));
  EXPECT_NEAR(chosen[0].factor, 1.0 / (1.0 + std::exp(3.0)), 1e-6);
}

}  // namespace
}  // namespace tenon::ref
