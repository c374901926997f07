// Heads on every executor that runs them: what they draft is what tests/golden/make_head_goldens.py
// computed.
#include "tests/pipeline/heads/head_driver.h"

namespace tenon::test {
namespace {

constexpr uint32_t kTargetLayers = 4;

// A target without weights: heads that have an embedding of their own need none.
std::unique_ptr<Model> target(uint32_t vocabulary, uint32_t hidden) {
  auto model = std::make_unique<Model>();
  model->plan.vocabulary = vocabulary;
  model->plan.hidden = hidden;
  model->plan.layers.resize(kTargetLayers);
  return model;
}

class HeadGoldens : public testing::TestWithParam<std::tuple<ExecutorCase, const char*>> {};

TEST_P(HeadGoldens, chains_have_the_logits_of_the_paper) {
  const auto& [executor, name] = GetParam();
  const std::string folder = source_folder() + "/tests/golden/heads/" + name;
  const Golden golden = read_golden(folder);
  const auto of = target(40, 16);
  auto opened = open_head(folder, *of);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  // The plain folder does not say it.
  if (opened->head->norm_before_residual < 0) opened->head->norm_before_residual = 0;
  EXPECT_LE(worst_of_chains(executor, *opened, golden), 1e-4f);
}

INSTANTIATE_TEST_SUITE_P(Folders, HeadGoldens,
                         testing::Combine(testing::ValuesIn(executor_cases()),
                                          testing::Values("plain", "norms", "two_layers")),
                         [](const auto& one) {
                           return std::get<0>(one.param).name() + "_" + std::get<1>(one.param);
                         });

}  // namespace
}  // namespace tenon::test
