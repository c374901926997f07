// Heads that draft a block in one pass, on every executor that runs them: what they draft is what
// tests/golden/make_block_goldens.py computed.
#include <cstdlib>

#include "core/engine/step/draft_runner.h"
#include "tests/pipeline/heads/head_driver.h"

namespace tenon::test {
namespace {

constexpr float kTolerance = 1e-4f;

struct BlockGolden {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> anchors;
  std::vector<float> hidden, logits, states, followed, confidence, embedding;
  uint64_t width = 0, count = 0, vocabulary = 0;
};

std::vector<float> floats(const Checkpoint& file, const char* name) {
  std::vector<float> values;
  const TensorView* view = file.find(name);
  for (uint64_t i = 0; view != nullptr && i < element_count(*view); ++i) {
    values.push_back(element(*view, i));
  }
  return values;
}

template <typename Number>
std::vector<Number> integers(const Checkpoint& file, const char* name) {
  std::vector<Number> values;
  const TensorView& view = *file.find(name);
  for (uint64_t i = 0; i < view.shape[0]; ++i) {
    values.push_back(static_cast<Number>(static_cast<const int64_t*>(view.data)[i]));
  }
  return values;
}

BlockGolden read_block_golden(const Checkpoint& file) {
  BlockGolden golden;
  golden.tokens = integers<TokenId>(file, "tokens");
  golden.anchors = integers<uint32_t>(file, "anchors");
  golden.hidden = floats(file, "hidden");
  golden.logits = floats(file, "logits");
  golden.states = floats(file, "states");
  golden.followed = floats(file, "followed");
  golden.confidence = floats(file, "confidence");
  golden.width = file.find("hidden")->shape[1];
  golden.count = file.find("logits")->shape[1];
  golden.vocabulary = file.find("logits")->shape[2];
  return golden;
}

// A target of 40 tokens, 16 numbers and 4 layers, of whose weights there is the embedding where the
// golden has it.
std::unique_ptr<Model> target_of(const Checkpoint& golden) {
  auto model = std::make_unique<Model>();
  model->plan.vocabulary = 40;
  model->plan.hidden = 16;
  model->plan.layers.resize(4);
  if (const TensorView* embedding = golden.find("embedding"); embedding != nullptr) {
    model->plan.vocabulary = static_cast<uint32_t>(embedding->shape[0]);
    model->plan.hidden = static_cast<uint32_t>(embedding->shape[1]);
    model->embedding.name = "embedding";
    model->embedding.format = "f32";
    model->embedding.n_out = model->plan.vocabulary;
    model->embedding.k_in = model->plan.hidden;
    model->embedding.parts = {*embedding};
  }
  return model;
}

// A row of the LM head's logits by the target's tokens.
Row by_tokens(const Head& head, const Row& row, uint32_t vocabulary) {
  if (head.token_ids.empty()) return row;
  Row all(vocabulary, -INFINITY);
  for (size_t i = 0; i < row.size(); ++i) all[static_cast<size_t>(head.token_ids[i])] = row[i];
  return all;
}

// And back.
Row of_head(const Head& head, const float* all, uint64_t count) {
  Row row;
  for (size_t i = 0; i < count; ++i) {
    row.push_back(all[head.token_ids.empty() ? i : static_cast<size_t>(head.token_ids[i])]);
  }
  return row;
}

float worst(const Row& row, std::span<const float> expected) {
  EXPECT_EQ(row.size(), expected.size());
  float worst = 0;
  for (size_t i = 0; i < std::min(row.size(), expected.size()); ++i) {
    worst = std::max(worst, std::abs(row[i] - expected[i]));
  }
  return worst;
}

// The tokens of the block after `anchor`, the target's states of which come in two parts.
HeadDriver::Rows draft(HeadDriver& driver, const Head& head, const BlockGolden& golden,
                       uint32_t anchor) {
  driver.begin();
  const auto count = static_cast<uint32_t>(golden.count);
  if (head.kind == HeadKind::dflash) {
    driver.keep({golden.tokens.begin() + 1, golden.tokens.begin() + 2}, golden.hidden.data(),
                golden.width);
    driver.keep({golden.tokens.begin() + 2, golden.tokens.begin() + anchor + 1},
                &golden.hidden[golden.width], golden.width);
    std::vector<TokenId> block(head.block_rows(), head.block.mask);
    block.front() = golden.tokens[anchor];
    std::vector<uint32_t> wanted;
    for (uint32_t i = 0; i < count; ++i) wanted.push_back(i + (head.block.from_anchor ? 0 : 1));
    return driver.run(block, nullptr, 0, wanted, true);
  }
  std::vector<TokenId> tokens(golden.tokens.begin() + 1, golden.tokens.begin() + anchor + 1);
  std::vector<float> states(golden.hidden.begin(),
                            golden.hidden.begin() + static_cast<ptrdiff_t>(anchor * golden.width));
  std::vector<uint32_t> wanted = {anchor - 1};
  for (uint32_t i = 1; i < count; ++i) {
    tokens.push_back(head.block.mask);
    states.insert(states.end(), head.block.mask_state.begin(), head.block.mask_state.end());
    wanted.push_back(anchor - 1 + i);
  }
  return driver.run(tokens, states.data(), golden.width, wanted);
}

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
