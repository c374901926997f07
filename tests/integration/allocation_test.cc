// A step allocates nothing: whatever it needs was allocated when the executor was loaded.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/allocation_count.h"
#include "tests/support/models/executor_case.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::test {
namespace {

class AllocationTest : public testing::TestWithParam<ExecutorCase> {};
INSTANTIATE_TEST_SUITE_P(Cpu, AllocationTest, testing::ValuesIn(cpu_cases()),
                         [](const auto& test) { return test.param.name(); });

TEST_P(AllocationTest, a_step_allocates_nothing_after_the_first) {
  if (!counts_allocations()) GTEST_SKIP() << "nobody can count under this sanitizer";
  const auto model = make_tiny_model({.config = tiny_config()});
  const ModelShapeStorage shape(model->plan, 64);
  Loaded loaded(GetParam(), *model, shape.shape());
  const std::vector<TokenId> tokens = some_tokens(20, 61);
  std::vector<uint32_t> positions(20);
  for (uint32_t i = 0; i < 20; ++i) positions[i] = i;
  const std::vector<BlockId> blocks = {3, 1};
  KvTableView table;
  table.blocks = blocks;
  const auto launch = [&](uint64_t id, uint32_t first, uint32_t rows) {
    BatchSequence sequence;
    sequence.seq = 0;
    sequence.rows = rows;
    const uint32_t length = first + rows;
    const uint32_t wanted = rows - 1;
    BatchGroup group;
    group.slots = std::span(positions).subspan(first, rows);
    group.kv_tokens = {&length, 1};
    group.tables = {&table, 1};
    BatchView batch;
    batch.step_id = id;
    batch.rows = batch.padded_rows = rows;
    batch.tokens = std::span(tokens).subspan(first, rows);
    batch.padded_sequences = 1;
    batch.positions = group.slots;
    batch.groups = {&group, 1};
    batch.sequences = {&sequence, 1};
    batch.logits_rows = {&wanted, 1};
    return loaded.executor().launch(batch).ok() && loaded.executor().collect(id).ok();
  };
  ASSERT_TRUE(launch(1, 0, 18));
  ASSERT_TRUE(launch(2, 18, 1));
  const uint64_t before = allocation_count();
  ASSERT_TRUE(launch(3, 0, 18));
  ASSERT_TRUE(launch(4, 18, 1));
  ASSERT_TRUE(launch(5, 19, 1));
  EXPECT_EQ(allocation_count() - before, 0u);
}

}  // namespace
}  // namespace tenon::test
