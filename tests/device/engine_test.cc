// An engine over the late device: tokens, and the bits they are drawn from, are those of the CPU
// executor, whatever the strategies, with trees of drafts, with recurrent layers, and with
// engine.plan_ahead.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/device/small_engine.h"
#include "tests/device/test_drafters.h"

namespace tenon::test {
namespace {

using Strategies = std::tuple<std::string, std::string, bool>;
class EveryStrategy : public testing::TestWithParam<Strategies> {};
INSTANTIATE_TEST_SUITE_P(
    Combinations, EveryStrategy,
    testing::Combine(testing::Values("static", "continuous", "chunked", "fair"),
                     testing::Values("naive", "paged", "prefix", "radix"), testing::Bool()),
    [](const auto& test) {
      return std::get<0>(test.param) + "_" + std::get<1>(test.param) +
             (std::get<2>(test.param) ? "_ahead" : "");
    });

TEST_P(EveryStrategy, gives_the_tokens_and_digests_of_the_host_on_the_late_device) {
  const auto& [scheduler, kv_cache, plan_ahead] = GetParam();
  SmallEngine engine({.world = engine_world(kv_cache),
                      .side = Side::late,
                      .scheduler = scheduler,
                      .kv_cache = kv_cache,
                      .plan_ahead = plan_ahead});
  EXPECT_EQ(engine.run(), answers_of_the_host());
}

class PlanAhead : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Steps, PlanAhead, testing::Bool(), [](const auto& test) {
  return test.param ? "planned_ahead" : "one_by_one";
});

TEST_P(PlanAhead, trees_of_drafts_give_the_tokens_of_none) {
  for (const char* kv_cache : {"paged", "radix"}) {
    TreeDrafter drafter(tiny_config().vocabulary);
    SmallEngine engine({.world = engine_world(kv_cache),
                        .side = Side::uneven,
                        .kv_cache = kv_cache,
                        .drafter = &drafter,
                        .trees = true,
                        .plan_ahead = GetParam()});
    EXPECT_EQ(engine.run(), answers_of_the_host()) << kv_cache;
    EXPECT_GT(drafter.trees(), 0u);
    EXPECT_GT(drafter.accepted(), 0u);
  }
}

TEST_P(PlanAhead, recurrent_layers_give_the_tokens_of_the_host_with_drafts_and_without) {
  WorldOptions world = engine_world("paged");
  world.recurrent = {0, 3};
  world.state_slots = 96;
  const std::vector<Answer> expected = SmallEngine({.world = world, .side = Side::host}).run();
  EXPECT_NE(expected, answers_of_the_host()) << "the recurrence has no say";
  EXPECT_EQ(SmallEngine({.world = world, .side = Side::late, .plan_ahead = GetParam()}).run(),
            expected);
  LoadedPlugin<Drafter> ngram("drafter", "ngram");
  ASSERT_EQ(ngram.error(), "");
  SmallEngine drafting(
      {.world = world, .side = Side::late, .drafter = ngram.get(), .plan_ahead = GetParam()});
  EXPECT_EQ(drafting.run(), expected);
}

}  // namespace
}  // namespace tenon::test
