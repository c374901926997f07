// Heads that draft a block in one pass, on every executor that runs them: what they draft is what
// tests/golden/make_block_goldens.py computed.
#include <cstdlib>

#include "core/engine/step/drafts/draft_runner.h"
#include "tests/pipeline/heads/block_golden.h"

namespace tenon::test {
namespace {

constexpr float kTolerance = 1e-4f;

class BlockGoldens : public testing::TestWithParam<std::tuple<ExecutorCase, const char*>> {};

TEST_P(BlockGoldens, blocks_have_the_states_and_logits_of_the_papers) {
  const auto& [executor, name] = GetParam();
  const std::string folder = source_folder() + "/tests/golden/heads/" + name;
  auto file = open_safetensors(folder + "/golden.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const BlockGolden golden = read_block_golden(**file);
  const auto of = target_of(**file);
  auto opened = open_head(folder, *of);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Head& head = *opened->head;
  ASSERT_GE(head.block.tokens, golden.count);
  HeadDriver driver(executor, *opened);
  const uint64_t hidden = opened->model->plan.hidden;
  for (size_t a = 0; a < golden.anchors.size(); ++a) {
    const HeadDriver::Rows rows = draft(driver, head, golden, golden.anchors[a]);
    ASSERT_EQ(rows.logits.size(), golden.count);
    for (size_t i = 0; i < golden.count; ++i) {
      const size_t at = a * golden.count + i;
      const std::span logits(golden.logits), states(golden.states);
      EXPECT_LE(worst(rows.logits[i], logits.subspan(at * golden.vocabulary, golden.vocabulary)),
                kTolerance);
      EXPECT_LE(worst(rows.states[i], states.subspan(at * hidden, hidden)), kTolerance);
    }
  }
}

// What the draft runner adds to a block.
TEST_P(BlockGoldens, tokens_follow_the_ones_before_them_as_the_head_says) {
  const auto& [executor, name] = GetParam();
  const std::string folder = source_folder() + "/tests/golden/heads/" + name;
  auto file = open_safetensors(folder + "/golden.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const BlockGolden golden = read_block_golden(**file);
  const auto of = target_of(**file);
  auto opened = open_head(folder, *of);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  HeadDriver driver(executor, *opened);
  DraftRunnerParts parts;
  parts.executor = &driver.executor();
  parts.shape = &driver.shape();
  parts.geometry = driver.geometry();
  parts.max_rows = kBlock;
  parts.max_sequences = 1;
  parts.head = opened->head.get();
  DraftRunner runner(parts);
  EXPECT_EQ(runner.follows(), !golden.followed.empty());
  EXPECT_EQ(runner.has_confidence(), !golden.confidence.empty());
  std::vector<float> chance(golden.count);
  for (size_t a = 0; a < golden.anchors.size(); ++a) {
    const HeadDriver::Rows rows = draft(driver, *opened->head, golden, golden.anchors[a]);
    std::vector<const float*> logits, states;
    std::vector<Row> wide;
    for (const Row& row : rows.logits) {
      wide.push_back(by_tokens(*opened->head, row, of->plan.vocabulary));
    }
    for (size_t i = 0; i < golden.count; ++i) {
      logits.push_back(wide[i].data());
      states.push_back(rows.states[i].data());
    }
    const std::span before = std::span(golden.tokens).subspan(golden.anchors[a], golden.count);
    const Status status = runner.follow(before, logits, states, chance);
    EXPECT_EQ(status.ok(), runner.follows()) << status.message();
    for (size_t i = 0; status.ok() && i < golden.count; ++i) {
      const size_t at = a * golden.count + i;
      const std::span followed(golden.followed);
      EXPECT_LE(worst(of_head(*opened->head, logits[i], golden.vocabulary),
                      followed.subspan(at * golden.vocabulary, golden.vocabulary)),
                kTolerance);
      EXPECT_NEAR(std::log(chance[i] / (1 - chance[i])), golden.confidence[at], kTolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Folders, BlockGoldens,
    testing::Combine(testing::ValuesIn(executor_cases()),
                     testing::Values("dflash", "dspark", "dflash_plain", "peagle")),
    [](const auto& one) { return std::get<0>(one.param).name() + "_" + std::get<1>(one.param); });

}  // namespace
}  // namespace tenon::test
