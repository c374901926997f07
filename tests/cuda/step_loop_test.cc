// The step loop over the emulated device gives the same tokens, drawn from the same bits, whatever
// the strategies, with steps that are planned and sent while the device computes, and without.
#include "tests/cuda/rig/step_loop.h"

#include <string>
#include <tuple>

#include "tests/device/test_drafters.h"

namespace tenon::cuda::test {
namespace {

const std::vector<Answer>& plain_answers() {
  static const std::vector<Answer> kAnswers = StepLoop({}).run();
  return kAnswers;
}

using Strategies = std::tuple<std::string, std::string>;
class CudaStepLoop : public testing::TestWithParam<Strategies> {};
INSTANTIATE_TEST_SUITE_P(
    Combinations, CudaStepLoop,
    testing::Values(Strategies{"continuous", "paged"}, Strategies{"chunked", "radix"},
                    Strategies{"static", "naive"}, Strategies{"fair", "prefix"}),
    [](const auto& test) { return std::get<0>(test.param) + "_" + std::get<1>(test.param); });

TEST_P(CudaStepLoop, gives_the_same_tokens_and_digests_where_steps_are_planned_ahead) {
  const auto& [scheduler, kv_cache] = GetParam();
  LoopCase c{.world = tenon::test::engine_world(kv_cache),
             .scheduler = scheduler,
             .kv_cache = kv_cache,
             .plan_ahead = true,
             .seed = 5};
  uint64_t ahead = 0;
  c.on_plan = [&](uint64_t waiting) { ahead += waiting > 0 ? 1 : 0; };
  StepLoop loop(c);
  const uint64_t pageable = loop.driver().pageable_copies();
  EXPECT_EQ(loop.run(), plain_answers());
  EXPECT_EQ(loop.engine().last_fault(), "");
  EXPECT_GT(ahead, 5u);
  EXPECT_GT(loop.driver().sent_ahead(), 5u) << "of what was known of the next step";
  EXPECT_EQ(loop.driver().pageable_copies(), pageable);
}

std::vector<std::vector<TokenId>> tokens_of(const std::vector<Answer>& answers) {
  std::vector<std::vector<TokenId>> tokens;
  for (const Answer& answer : answers) tokens.push_back(answer.ids);
  return tokens;
}

TEST(CudaTrees, of_drafts_give_the_tokens_of_the_host_and_the_logits_of_no_drafts) {
  EXPECT_EQ(tokens_of(plain_answers()), tokens_of(StepLoop({.on_host = true}).run()));
  for (const bool plan_ahead : {false, true}) {
    for (const char* kv_cache : {"paged", "radix"}) {
      SCOPED_TRACE(kv_cache);
      tenon::test::TreeDrafter drafter(tenon::test::tiny_config().vocabulary);
      StepLoop loop({.world = tenon::test::engine_world(kv_cache),
                     .kv_cache = kv_cache,
                     .plan_ahead = plan_ahead,
                     .graph_bytes = kGraphRoom,
                     .seed = 3,
                     .drafter = &drafter});
      EXPECT_EQ(loop.run(), plain_answers());
      EXPECT_EQ(loop.engine().last_fault(), "");
      EXPECT_GT(drafter.trees(), 0u);
      EXPECT_GT(drafter.accepted(), 0u);
    }
  }
}

class CudaDraws : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Steps, CudaDraws, testing::Bool(), [](const auto& test) {
  return test.param ? "planned_ahead" : "one_by_one";
});

TEST_P(CudaDraws, give_the_tokens_of_the_sampler_and_leave_logits_where_they_are) {
  StepLoop plain({});
  const auto expected = tokens_of(plain.run());
  tenon::test::TreeDrafter trees(tenon::test::tiny_config().vocabulary);
  for (Drafter* drafter : std::initializer_list<Drafter*>{nullptr, &trees}) {
    StepLoop loop({.plan_ahead = GetParam(),
                   .graph_bytes = kGraphRoom,
                   .seed = 4,
                   .drafter = drafter,
                   .draws = true});
    EXPECT_EQ(tokens_of(loop.run()), expected);
    EXPECT_EQ(loop.engine().last_fault(), "");
    EXPECT_LT(loop.driver().fetched_bytes(), plain.driver().fetched_bytes() / 4);
  }
  EXPECT_GT(trees.accepted(), 0u);
}

}  // namespace
}  // namespace tenon::cuda::test
