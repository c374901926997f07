// What every executor promises: a row's logits are the same bits however the work is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/exec/kv_bytes.h"
#include "tests/support/models/executor_case.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::test {
namespace {

Logits part(const Logits& all, size_t first, size_t last) {
  return {all.begin() + static_cast<ptrdiff_t>(first), all.begin() + static_cast<ptrdiff_t>(last)};
}

class ExecutorTest : public testing::TestWithParam<ExecutorCase> {
 protected:
  explicit ExecutorTest(const FlatConfig& config = tiny_config())
      : model_(make_tiny_model({.config = config})), shape_(model_->plan, 64) {}

  Loaded load(const LoadOptions& options = {}) { return load(GetParam(), options); }
  Loaded load(const ExecutorCase& executor, const LoadOptions& options = {}) {
    return {executor, *model_, shape_.shape(), options};
  }
  std::vector<TokenId> tokens(uint32_t count, uint32_t seed = 1) {
    return some_tokens(count, model_->plan.vocabulary, seed);
  }

  std::unique_ptr<Model> model_;
  ModelShapeStorage shape_;
};

std::string case_name(const testing::TestParamInfo<ExecutorCase>& info) {
  return info.param.name();
}
INSTANTIATE_TEST_SUITE_P(Executors, ExecutorTest, testing::ValuesIn(executor_cases()), case_name);

TEST_P(ExecutorTest, chunks_of_any_size_give_the_same_bits) {
  const Logits whole = load()->feed(tokens(33), {33});
  EXPECT_EQ(load()->feed(tokens(33), {1}), whole);
  EXPECT_EQ(load()->feed(tokens(33), {7, 1, 16}), whole);
  EXPECT_EQ(load()->feed(tokens(33), {2}), whole);
}

TEST_P(ExecutorTest, blocks_of_any_size_give_the_same_bits) {
  const Logits expected = load()->feed(tokens(33), {5});
  for (const uint32_t block_tokens : {1u, 3u, 16u, 64u}) {
    EXPECT_EQ(load({.block_tokens = block_tokens})->feed(tokens(33), {5}), expected)
        << block_tokens << " tokens a block";
  }
}

TEST_P(ExecutorTest, any_number_of_threads_gives_the_same_bits) {
  const Logits expected = load()->feed(tokens(33), {20, 1});
  for (const uint32_t threads : {1u, 3u, 4u}) {
    ExecutorCase other = GetParam();
    other.threads = threads;
    EXPECT_EQ(load(other)->feed(tokens(33), {20, 1}), expected) << threads << " threads";
  }
}

TEST_P(ExecutorTest, sequences_in_one_batch_do_not_touch_each_other) {
  Loaded executor = load();
  std::vector<StepDriver::Feed> prompts;
  std::vector<StepDriver::Feed> singles;
  for (uint32_t i = 0; i < 32; ++i) {
    const size_t sequence = executor->begin();
    prompts.push_back({sequence, tokens(1 + i * 5 % 13, i)});
    singles.push_back({sequence, tokens(1, 100 + i)});
  }
  const Logits first = executor->step(prompts);
  const Logits second = executor->step(singles);
  size_t at = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    std::vector<TokenId> text = prompts[i].tokens;
    const size_t length = text.size();
    text.push_back(singles[i].tokens[0]);
    const Logits alone = load()->feed(text, {static_cast<uint32_t>(text.size())});
    EXPECT_EQ(part(first, at, at + length), part(alone, 0, length)) << "sequence " << i;
    EXPECT_EQ(second[i], alone[length]) << "sequence " << i;
    at += length;
  }
}

TEST_P(ExecutorTest, only_wanted_rows_have_logits) {
  const Logits all = load()->feed(tokens(12), {12});
  Loaded executor = load();
  const size_t a = executor->begin();
  const size_t b = executor->begin();
  const std::vector<StepDriver::Feed> feeds = {{a, tokens(12)}, {b, tokens(5)}};
  const Logits last = executor->step(feeds, StepDriver::Want::last);
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0], all[11]);
  EXPECT_EQ(last[1], all[4]);
}

TEST_P(ExecutorTest, a_step_may_want_no_logits_at_all) {
  Loaded executor = load();
  const size_t sequence = executor->begin();
  EXPECT_TRUE(executor->step({{sequence, tokens(7)}}, StepDriver::Want::none).empty());
  const std::vector<TokenId> text = tokens(12);
  EXPECT_EQ(executor->step({{sequence, {text.begin() + 7, text.end()}}}),
            part(load()->feed(text, {12}), 7, 12));
}

TEST_P(ExecutorTest, positions_taken_back_leave_no_trace) {
  const std::vector<TokenId> text = tokens(20);
  const Logits expected = load()->feed(text, {20});
  Loaded executor = load();
  const size_t sequence = executor->begin();
  executor->step({{sequence, {text.begin(), text.begin() + 10}}});
  executor->step({{sequence, tokens(8, 5)}});
  executor->roll_back(sequence, 10);
  EXPECT_EQ(executor->step({{sequence, {text.begin() + 10, text.end()}}}), part(expected, 10, 20));
}

TEST_P(ExecutorTest, a_copied_block_continues_like_the_original) {
  std::vector<TokenId> text = tokens(10);
  Loaded executor = load({.block_tokens = 8});
  const size_t parent = executor->begin();
  executor->step({{parent, text}});
  const size_t child = executor->fork(parent, 10);
  // Position 10 would be written into the parent's second block.
  const KvMove copy{0, {{}, executor->table(child)[1], 0}, {{}, executor->take_block(), 0}, 2};
  ASSERT_TRUE(executor.executor().apply({&copy, 1}).ok());
  executor->table(child)[1] = copy.to.block;
  const Logits both = executor->step({{parent, tokens(5, 6)}, {child, tokens(5, 7)}});
  for (const size_t who : {0u, 1u}) {
    std::vector<TokenId> alone = text;
    const std::vector<TokenId> tail = tokens(5, who == 0 ? 6 : 7);
    alone.insert(alone.end(), tail.begin(), tail.end());
    EXPECT_EQ(part(both, 5 * who, 5 * who + 5), part(load()->feed(alone, {15}), 10, 15));
  }
}

TEST_P(ExecutorTest, kept_positions_can_be_brought_together) {
  const std::vector<TokenId> text = tokens(6);
  Loaded executor = load({.block_tokens = 4});
  const size_t sequence = executor->begin();
  executor->step({{sequence, {text.begin(), text.begin() + 5}}});
  // Position 4 lies aside while another token takes its place, and is brought back.
  const BlockId block = executor->table(sequence)[1];
  const KvMove aside{0, {{}, block, 0}, {{}, block, 3}, 1};
  ASSERT_TRUE(executor.executor().apply({&aside, 1}).ok());
  executor->roll_back(sequence, 4);
  executor->step({{sequence, tokens(1, 9)}});
  const KvMove together{0, {{}, block, 3}, {{}, block, 0}, 1};
  ASSERT_TRUE(executor.executor().apply({&together, 1}).ok());
  EXPECT_EQ(executor->step({{sequence, {text[5]}}})[0], load()->feed(text, {6})[5]);
}

TEST_P(ExecutorTest, an_unknown_token_is_refused_and_the_next_step_runs) {
  Loaded executor = load();
  const size_t bad = executor->begin();
  EXPECT_EQ(executor->try_step({{bad, {61}}}).status().message(),
            "token id 61 is not of the vocabulary; expected 0 to 60");
  EXPECT_EQ(executor->feed(tokens(5), {5}), load()->feed(tokens(5), {5}));
}

TEST_P(ExecutorTest, results_of_another_step_are_refused) {
  Loaded executor = load();
  executor->feed(tokens(5), {5});
  EXPECT_TRUE(executor.executor().collect(1).ok());
  EXPECT_EQ(executor.executor().collect(2).status().code(), StatusCode::internal);
}

TEST_P(ExecutorTest, memory_it_holds_is_told) {
  Loaded executor = load({.block_tokens = 4, .blocks = 9});
  // 2 layers of 2 heads of 8 elements, K and V.
  EXPECT_EQ(executor.executor().kv_bytes(), 9u * 4 * 2 * 2 * (2 * 8) * 4);
  EXPECT_GE(executor.executor().weight_bytes(), model_->weight_bytes() / 2);
  EXPECT_EQ(executor.executor().workers(), GetParam().kind == ExecutorCase::Kind::ref ? 1u : 2u);
}

// Keeps the bytes that it was told of, when it was.
class Watching final : public KvWatch {
 public:
  Watching(const KvBytes& bytes, std::vector<BlockId> blocks)
      : bytes_(bytes), blocks_(std::move(blocks)) {}
  void on_ready(std::span<const uint64_t> ready) override {
    ASSERT_EQ(ready.size(), 1u);
    for (const BlockId block : blocks_) {
      seen.push_back(std::vector<std::byte>(ready[0]));
      bytes_.read_block(0, block, 0, seen.back());
    }
  }
  std::vector<std::vector<std::byte>> seen;  // [calls · blocks]

 private:
  const KvBytes& bytes_;
  const std::vector<BlockId> blocks_;
};

TEST_P(ExecutorTest, k_and_v_are_final_when_it_says_so_of_their_layer) {
  Loaded executor = load({.block_tokens = 4});
  const size_t sequence = executor->begin();
  executor->step({{sequence, tokens(6)}});
  for (const uint32_t rows : {18u, 1u}) {
    SCOPED_TRACE(rows);
    for (uint32_t i = 0; i < 5; ++i) executor->table(sequence).push_back(executor->take_block());
    const std::vector<BlockId> blocks = executor->table(sequence);
    KvBytes& bytes = *executor.executor().kv_blocks();
    Watching watching(bytes, blocks);
    bytes.watch(&watching);
    executor->step({{sequence, tokens(rows, 3)}}, StepDriver::Want::last);
    bytes.watch(nullptr);
    const uint64_t whole = bytes.block_bytes(0);
    ASSERT_EQ(watching.seen.size(), 2 * blocks.size()) << "two layers";
    EXPECT_EQ(watching.seen.front().size(), whole / 2);
    EXPECT_EQ(watching.seen.back().size(), whole);
    for (size_t i = 0; i < watching.seen.size(); ++i) {
      std::vector<std::byte> now(watching.seen[i].size());
      bytes.read_block(0, blocks[i % blocks.size()], 0, now);
      EXPECT_EQ(watching.seen[i], now) << i;
    }
  }
  EXPECT_EQ(executor->feed(tokens(5), {5}), load()->feed(tokens(5), {5})) << "nobody watches";
}

class ExecutorWindowTest : public ExecutorTest {
 protected:
  static FlatConfig config() {
    FlatConfig c = tiny_config();
    c.layers = 1;
    c.window_tokens = {6};
    return c;
  }
  ExecutorWindowTest() : ExecutorTest(config()) {}
};
INSTANTIATE_TEST_SUITE_P(Executors, ExecutorWindowTest, testing::ValuesIn(executor_cases()),
                         case_name);

TEST_P(ExecutorWindowTest, a_row_sees_the_last_positions_of_its_window_alone) {
  std::vector<TokenId> text = tokens(20);
  const Logits before = load()->feed(text, {20});
  text[3] = (text[3] + 1) % 61;
  const Logits changed = load()->feed(text, {20});
  for (size_t row = 0; row < 20; ++row) {
    EXPECT_EQ(changed[row] != before[row], row >= 3 && row < 3 + 6) << row;
  }
}

TEST_P(ExecutorWindowTest, blocks_behind_the_window_may_be_gone) {
  const std::vector<TokenId> text = tokens(20);
  const Logits expected = load()->feed(text, {20});
  Loaded executor = load({.block_tokens = 4});
  const size_t sequence = executor->begin();
  executor->step({{sequence, {text.begin(), text.end() - 1}}});
  executor->table(sequence)[0] = kNoBlock;
  executor->table(sequence)[1] = kNoBlock;
  EXPECT_EQ(executor->step({{sequence, {text.back()}}})[0], expected[19]);
}

}  // namespace
}  // namespace tenon::test
