// Heads that other software made, with what it computed for them: TENON_TEST_HEADS names a folder
// of their folders (tests/golden/random_speculators.py makes some). By hand; without it nothing
// runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/engine/step/drafts/draft_runner.h"
#include "tests/pipeline/heads/block_golden.h"

namespace tenon::test {
namespace {

constexpr float kTolerance = 1e-4f;

Weight matrix_of(const TensorView& view, const char* name) {
  Weight weight;
  weight.name = name;
  weight.format = "f32";
  weight.n_out = static_cast<uint32_t>(view.shape[0]);
  weight.k_in = static_cast<uint32_t>(view.shape[1]);
  weight.parts = {view};
  return weight;
}

// "target" has its tokens, its hidden size and its layers; embedding and LM head lie next to it.
std::unique_ptr<Model> target_in(const Checkpoint& golden) {
  auto model = std::make_unique<Model>();
  const std::vector<uint32_t> target = integers<uint32_t>(golden, "target");
  model->plan.vocabulary = target[0];
  model->plan.hidden = target[1];
  model->plan.layers.resize(target[2]);
  if (const TensorView* view = golden.find("embedding")) {
    model->embedding = matrix_of(*view, "embedding");
  }
  if (const TensorView* view = golden.find("head")) model->head = matrix_of(*view, "head");
  return model;
}

// What the draft runner adds to the logits of a block, against "followed" and "confidence".
float worst_followed(HeadDriver& driver, const Head& head, const BlockGolden& golden,
                     uint32_t anchor, size_t at, const HeadDriver::Rows& rows,
                     uint32_t vocabulary) {
  DraftRunnerParts parts;
  parts.executor = &driver.executor();
  parts.shape = &driver.shape();
  parts.geometry = driver.geometry();
  parts.max_rows = kBlock;
  parts.max_sequences = 1;
  parts.head = &head;
  DraftRunner runner(parts);
  std::vector<Row> wide;
  std::vector<const float*> logits, states;
  for (const Row& row : rows.logits) wide.push_back(by_tokens(head, row, vocabulary));
  for (size_t i = 0; i < golden.count; ++i) {
    logits.push_back(wide[i].data());
    states.push_back(rows.states[i].data());
  }
  std::vector<float> chance(golden.count);
  const Status status =
      runner.follow(std::span(golden.tokens).subspan(anchor, golden.count), logits, states, chance);
  EXPECT_TRUE(status.ok()) << status.message();
  float far = 0;
  for (size_t i = 0; status.ok() && i < golden.count; ++i) {
    if (!golden.followed.empty()) {
      const std::span followed(golden.followed);
      far = std::max(far, worst(of_head(head, logits[i], golden.vocabulary),
                                followed.subspan((at + i) * golden.vocabulary, golden.vocabulary)));
    }
    if (golden.confidence.empty()) continue;
    far =
        std::max(far, std::abs(std::log(chance[i] / (1 - chance[i])) - golden.confidence[at + i]));
  }
  return far;
}

float worst_of_blocks(const ExecutorCase& executor, const OpenedHead& opened,
                      const Checkpoint& file, uint32_t vocabulary) {
  const Head& head = *opened.head;
  const BlockGolden golden = read_block_golden(file);
  HeadDriver driver(executor, opened);
  const uint64_t hidden = opened.model->plan.hidden;
  float far = 0;
  for (size_t a = 0; a < golden.anchors.size(); ++a) {
    const HeadDriver::Rows rows = draft(driver, head, golden, golden.anchors[a]);
    EXPECT_EQ(rows.logits.size(), golden.count);
    for (size_t i = 0; i < rows.logits.size(); ++i) {
      const size_t at = a * golden.count + i;
      const std::span logits(golden.logits), states(golden.states);
      far = std::max(
          far, worst(rows.logits[i], logits.subspan(at * golden.vocabulary, golden.vocabulary)));
      far = std::max(far, worst(rows.states[i], states.subspan(at * hidden, hidden)));
    }
    if (golden.followed.empty() && golden.confidence.empty()) continue;
    far = std::max(far, worst_followed(driver, head, golden, golden.anchors[a], a * golden.count,
                                       rows, vocabulary));
  }
  return far;
}

TEST(OutsideHeads, draft_what_their_own_software_does) {
  const char* folders = std::getenv("TENON_TEST_HEADS");
  if (folders == nullptr) GTEST_SKIP() << "TENON_TEST_HEADS is not set";
  std::vector<std::string> paths;
  for (const auto& each : std::filesystem::directory_iterator(folders)) {
    if (is_head(each.path())) paths.push_back(each.path());
  }
  std::ranges::sort(paths);
  ASSERT_FALSE(paths.empty()) << "no head in " << folders;
  size_t equal = 0, refused = 0;
  for (const std::string& path : paths) {
    auto file = open_safetensors(path + "/golden.safetensors");
    ASSERT_TRUE(file.ok()) << file.status().message();
    const auto target = target_in(**file);
    auto opened = open_head(path, *target);
    if (!opened.ok()) {
      std::printf("refused %s\n", std::string(opened.status().message()).c_str());
      ++refused;
      continue;
    }
    bool same = true;
    for (const ExecutorCase& executor : executor_cases()) {
      if (executor.rounds_activations()) continue;
      const float far = opened->head->block
                            ? worst_of_blocks(executor, *opened, **file, target->plan.vocabulary)
                            : worst_of_chains(executor, *opened, read_golden(path));
      EXPECT_LE(far, kTolerance) << path << " " << executor.name();
      same = same && far <= kTolerance;
    }
    if (same) ++equal;
  }
  std::printf("%zu heads: %zu equal, %zu refused\n", paths.size(), equal, refused);
}

}  // namespace
}  // namespace tenon::test
