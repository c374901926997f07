// Captured steps: the same bits as steps that are not, whatever is replayed, and a bound on what
// graphs take.
#include "core/exec/cuda/step/graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/exec/cuda/blocks/recurrence.h"
#include "core/exec/cuda/step/padded_batch.h"
#include "tests/cuda/rig/step_loop.h"
#include "tests/support/folders.h"
#include "tests/support/step_driver.h"

namespace tenon::cuda::test {
namespace {

using tenon::test::LoadOptions;
using tenon::test::Logits;
using tenon::test::some_tokens;
using tenon::test::StepDriver;

const std::vector<Answer>& uncaptured_answers() {
  static const std::vector<Answer> kAnswers = StepLoop({}).run();
  return kAnswers;
}

using Strategies = std::tuple<std::string, std::string, bool>;
class CapturedStepLoop : public testing::TestWithParam<Strategies> {};
INSTANTIATE_TEST_SUITE_P(Combinations, CapturedStepLoop,
                         testing::Values(Strategies{"continuous", "paged", false},
                                         Strategies{"continuous", "paged", true},
                                         Strategies{"chunked", "radix", true},
                                         Strategies{"static", "naive", true},
                                         Strategies{"fair", "prefix", false}),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param) +
                                  (std::get<2>(test.param) ? "_ahead" : "");
                         });

TEST_P(CapturedStepLoop, gives_the_tokens_and_digests_of_steps_that_are_launched_one_by_one) {
  const auto& [scheduler, kv_cache, plan_ahead] = GetParam();
  StepLoop loop({.world = tenon::test::engine_world(kv_cache),
                 .scheduler = scheduler,
                 .kv_cache = kv_cache,
                 .plan_ahead = plan_ahead,
                 .graph_bytes = kGraphRoom,
                 .seed = 9});
  EXPECT_EQ(loop.run(), uncaptured_answers());
  EXPECT_EQ(loop.engine().last_fault(), "");
  EXPECT_GT(loop.driver().captures(), 0u);
  EXPECT_GT(loop.driver().replays(), loop.driver().captures());
}

TEST(CapturedSteps, go_on_one_by_one_where_nothing_can_be_captured) {
  StepLoop loop({.graph_bytes = kGraphRoom});
  loop.driver().refuse_captures();
  EXPECT_EQ(loop.run(), uncaptured_answers());
  EXPECT_EQ(loop.driver().replays(), 0u);
}

TEST(CapturedSteps, go_on_one_by_one_where_a_graph_takes_more_than_all_may) {
  StepLoop loop({.graph_bytes = 1024});
  EXPECT_EQ(loop.run(), uncaptured_answers());
  EXPECT_EQ(loop.driver().captures(), 1u);
  EXPECT_EQ(loop.driver().graphs(), 0u);
}

// Several sequences, a token each a step, of which one joins and one leaves on the way.
std::vector<Logits> decode(const Model& model, uint64_t graph_bytes, DType kv_dtype,
                           uint64_t& replays) {
  const ModelShapeStorage shape(model.plan, 64);
  const auto driver = std::make_shared<TestDriver>(uint64_t{1} << 30, 3);
  const auto executor = make_cuda_executor(driver);
  LoadOptions options;
  options.block_tokens = 4;
  options.kv_dtype = kv_dtype;
  options.max_rows = 16;
  options.max_sequences = 6;
  options.graph_bytes = graph_bytes;
  StepDriver steps(*executor, model, shape.shape(), options);
  EXPECT_TRUE(steps.load_status().ok()) << steps.load_status().message();
  std::vector<Logits> all;
  std::vector<size_t> running;
  for (uint32_t step = 0; step < 7; ++step) {
    if (step == 0 || step == 1 || step == 3) {
      running.push_back(steps.begin());
      all.push_back(
          steps.step({{running.back(), some_tokens(3 + step, model.plan.vocabulary, step)}}));
    }
    if (step == 5) running.erase(running.begin());
    std::vector<StepDriver::Feed> feeds;
    for (const size_t sequence : running) {
      feeds.push_back({sequence, some_tokens(1, model.plan.vocabulary,
                                             step * 8 + static_cast<uint32_t>(sequence))});
    }
    all.push_back(steps.step(feeds));
  }
  replays = driver->replays();
  return all;
}

TEST(CapturedSteps, give_a_bundled_model_the_same_bits) {
  auto model = open_model(tenon::source_folder() + "/configs/models/tale-draft");
  ASSERT_TRUE(model.ok()) << model.status().message();
  uint64_t none = 0, replays = 0;
  const auto expected = decode(**model, 0, DType::bf16, none);
  EXPECT_EQ(decode(**model, kGraphRoom, DType::bf16, replays), expected);
  EXPECT_EQ(none, 0u);
  EXPECT_GE(replays, 3u);
}

TEST(CapturedSteps, give_tensor_cores_and_windows_the_same_bits) {
  tenon::test::FlatConfig config = tenon::test::tiny_config();
  config.head_dim = 64;
  config.window_tokens = {0, 5};
  const auto model = tenon::test::make_tiny_model({.config = config, .dtype = DType::bf16});
  uint64_t none = 0, replays = 0;
  const auto expected = decode(*model, 0, DType::bf16, none);
  EXPECT_EQ(decode(*model, kGraphRoom, DType::bf16, replays), expected);
  EXPECT_GE(replays, 3u);
}

DeviceGraph capture(TestDriver& driver, uint64_t bytes) {
  EXPECT_TRUE(driver.begin_capture().ok());
  DeviceGraph graph = *driver.end_capture();
  graph.bytes = bytes;
  return graph;
}

TEST(CudaGraphs, lets_those_go_that_were_used_longest_ago) {
  TestDriver driver;
  CudaGraphs graphs(driver);
  graphs.limit(100);
  ASSERT_TRUE(graphs.keep({1}, capture(driver, 40)).ok());
  ASSERT_TRUE(graphs.keep({2}, capture(driver, 40)).ok());
  EXPECT_NE(graphs.find({1}), nullptr);
  ASSERT_TRUE(graphs.keep({3}, capture(driver, 40)).ok());
  EXPECT_EQ(graphs.find({2}), nullptr);
  EXPECT_NE(graphs.find({1}), nullptr);
  EXPECT_EQ(graphs.bytes(), 80u);
  EXPECT_EQ(driver.graphs(), 2u);
}

TEST(CudaGraphs, keeps_no_more_than_so_many) {
  TestDriver driver;
  CudaGraphs graphs(driver);
  graphs.limit(1000);
  for (uint32_t i = 0; i < CudaGraphs::kMostGraphs + 5; ++i) {
    ASSERT_TRUE(graphs.keep({i}, capture(driver, 1)).ok());
  }
  EXPECT_EQ(graphs.count(), CudaGraphs::kMostGraphs);
  EXPECT_EQ(driver.graphs(), CudaGraphs::kMostGraphs);
}

TEST(CudaGraphs, lets_none_go_that_the_device_has_still_to_run) {
  TestDriver driver;
  CudaGraphs graphs(driver);
  graphs.limit(50);
  ASSERT_TRUE(graphs.keep({1}, capture(driver, 40)).ok());
  ASSERT_TRUE(driver.replay(graphs.find({1})).ok());
  ASSERT_TRUE(graphs.keep({2}, capture(driver, 40)).ok());
  EXPECT_TRUE(driver.wait().ok());
}

TEST(CudaGraphs, captures_what_comes_twice) {
  TestDriver driver;
  CudaGraphs graphs(driver);
  EXPECT_FALSE(graphs.wants({1}) || graphs.wants({1})) << "nothing may be captured";
  graphs.limit(100);
  EXPECT_FALSE(graphs.wants({1}));
  EXPECT_FALSE(graphs.wants({2}));
  EXPECT_TRUE(graphs.wants({1}));
}

TEST(PaddedBatch, has_room_for_the_most_padding_of_any_size) {
  for (uint32_t most = 1; most <= 300; ++most) {
    uint32_t worst = 0;
    for (uint32_t rows = 1; rows <= most; ++rows) {
      const uint32_t size = padded_size(rows, most);
      ASSERT_GE(size, rows);
      ASSERT_LE(size, most);
      worst = std::max(worst, size - rows);
    }
    ASSERT_EQ(most_padding(most), worst) << most;
  }
}

TEST(PaddedBatch, stores_padding_where_no_sequence_is) {
  const std::vector<TokenId> tokens = {7, 8, 9, 5, 6};
  const std::vector<uint32_t> positions = {3, 0, 1, 2, 4}, kv_tokens = {4, 1, 2, 3, 5},
                              wanted = {1};
  const std::vector<BlockId> block = {2};
  std::vector<BatchSequence> sequences;
  for (uint32_t i = 0; i < 5; ++i) sequences.push_back({.seq = i + 1, .first_row = i, .rows = 1});
  const std::vector<KvTableView> tables(5, KvTableView{.blocks = block, .ends = {}});
  const std::vector<BatchGroup> views = {{positions, kv_tokens, tables}};
  KvGroupGeometry geometry;
  geometry.block_tokens = 2;
  geometry.blocks = 10;
  BatchView batch;
  batch.rows = 5;
  batch.tokens = tokens;
  batch.positions = positions;
  batch.sequences = sequences;
  batch.groups = views;
  batch.logits_rows = wanted;
  ASSERT_TRUE(PaddedBatch::fits(batch, 8));
  EXPECT_FALSE(PaddedBatch::fits(batch, 4));
  PaddedBatch padded;
  const BatchView& made = padded.pad(batch, {&geometry, 1}, 8);
  EXPECT_EQ(made.rows, 8u);
  EXPECT_EQ(made.tokens.size(), 8u);
  EXPECT_EQ(made.tokens[7], 0);
  EXPECT_EQ(made.logits_rows.size(), 8u);
  EXPECT_EQ(made.logits_rows[0], 1u);
  std::set<std::pair<BlockId, uint32_t>> places;
  for (uint32_t row = 5; row < 8; ++row) {
    EXPECT_EQ(made.sequences[row].first_row, row);
    const BlockId own = made.groups[0].tables[row].blocks[0];
    EXPECT_GE(own, 10);
    EXPECT_LT(own, static_cast<BlockId>(10 + padding_blocks(3, 2)));
    EXPECT_LT(made.groups[0].slots[row], 2u);
    places.insert({own, made.groups[0].slots[row]});
  }
  EXPECT_EQ(places.size(), 3u);
}

TEST(PaddedBatch, keeps_no_state_of_padding) {
  const std::vector<TokenId> tokens = {7, 8, 9};
  const std::vector<uint32_t> positions = {3, 0, 1}, ends = {3, 4};
  const std::vector<BlockId> slots = {2, 5};
  std::vector<BatchSequence> sequences;
  for (uint32_t i = 0; i < 3; ++i) sequences.push_back({.seq = i + 1, .first_row = i, .rows = 1});
  const std::vector<KvTableView> tables(3, KvTableView{.blocks = slots, .ends = ends});
  const std::vector<BatchGroup> views = {{{}, {}, tables}};
  const KvGroupGeometry geometry{DType::u8, 1, 8, 40, 0};
  BatchView batch;
  batch.rows = 3;
  batch.tokens = tokens;
  batch.positions = positions;
  batch.sequences = sequences;
  batch.groups = views;
  PaddedBatch padded;
  const StatePlanArrays plan = plan_states(padded.pad(batch, {&geometry, 1}, 4), 0);
  EXPECT_EQ(plan.to, (std::vector<int32_t>{5, 5, 5, kNoSlot}));
  EXPECT_EQ(plan.row_sequence, (std::vector<uint32_t>{0, 1, 2, 3}));
  ASSERT_EQ(plan.sequences.size(), 4u);
  EXPECT_EQ(plan.sequences[2].from, 2);
  EXPECT_EQ(plan.sequences[3].from, kNoSlot);
  EXPECT_EQ(plan.sequences[3].rows, 1u);
}

}  // namespace
}  // namespace tenon::cuda::test
