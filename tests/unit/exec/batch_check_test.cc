#include "core/exec/batch_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tenon {
namespace {

using testing::HasSubstr;

// Two sequences: 3 rows at positions 4 … 6, and 1 row at position 0. Blocks of 4 tokens.
class BatchCheckTest : public testing::Test {
 protected:
  BatchCheckTest() {
    layer_.group = 0;
    shape_ = {.layers = 1,
              .vocabulary = 10,
              .context_tokens = 32,
              .group_count = 1,
              .groups = &group_,
              .layer = &layer_};
    tables_[0].blocks = blocks_[0];
    tables_[1].blocks = blocks_[1];
    sequences_ = {{7, 0, 3, 7, {&tables_[0], 1}}, {8, 3, 1, 1, {&tables_[1], 1}}};
  }

  Status check() {
    BatchView batch;
    batch.rows = static_cast<uint32_t>(tokens_.size());
    batch.tokens = tokens_;
    batch.positions = slots_;
    batch.slots = slots_;
    batch.sequences = sequences_;
    batch.logits_rows = wanted_;
    return check_batch(batch, {&shape_, &geometry_, 8, 2});
  }
  std::string message() { return std::string(check().message()); }

  KvGroup group_;
  LayerShape layer_;
  ModelShape shape_;
  KvGroupGeometry geometry_{.block_tokens = 4, .blocks = 6};
  std::vector<TokenId> tokens_ = {1, 2, 3, 9};
  std::vector<uint32_t> slots_ = {4, 5, 6, 0};
  std::vector<uint32_t> wanted_ = {2, 3};
  std::vector<BlockId> blocks_[2] = {{5, 0}, {2}};
  KvTableView tables_[2];
  std::vector<BatchSequence> sequences_;
};

TEST_F(BatchCheckTest, a_sound_batch_passes) {
  EXPECT_EQ(message(), "");
}

TEST_F(BatchCheckTest, a_token_outside_the_vocabulary_is_the_callers_fault) {
  tokens_[1] = 10;
  EXPECT_EQ(check().code(), StatusCode::invalid_argument);
  EXPECT_EQ(message(), "token id 10 is not of the vocabulary; expected 0 to 9");
  tokens_[1] = -1;
  EXPECT_EQ(check().code(), StatusCode::invalid_argument);
}

TEST_F(BatchCheckTest, more_rows_than_loaded_for_are_refused) {
  tokens_.resize(9);
  EXPECT_THAT(message(), HasSubstr("the executor was loaded for 8 and 2"));
}

TEST_F(BatchCheckTest, arrays_must_have_one_entry_a_row) {
  slots_.pop_back();
  EXPECT_THAT(message(), HasSubstr("not one for each of its 4 rows"));
}

TEST_F(BatchCheckTest, every_row_must_belong_to_a_sequence) {
  sequences_[1].rows = 0;
  EXPECT_THAT(message(), HasSubstr("sequences own 3"));
  sequences_[1] = {8, 2, 2, 1, {&tables_[1], 1}};
  EXPECT_THAT(message(), HasSubstr("do not follow"));
  sequences_[1] = {8, 3, UINT32_MAX, 1, {&tables_[1], 1}};
  EXPECT_THAT(message(), HasSubstr("do not follow"));
}

TEST_F(BatchCheckTest, slots_must_rise_below_kv_tokens) {
  slots_[2] = 7;
  EXPECT_THAT(message(), HasSubstr("row 2 at position 7"));
  slots_[2] = 5;
  EXPECT_THAT(message(), HasSubstr("row 2 at position 5"));
}

TEST_F(BatchCheckTest, every_visible_position_needs_a_block_of_the_group) {
  blocks_[0][0] = kNoBlock;
  EXPECT_THAT(message(), HasSubstr("entry 0 of the block table of sequence 7"));
  blocks_[0][0] = 6;
  EXPECT_THAT(message(), HasSubstr("entry 0"));
  blocks_[0][0] = 1;
  tables_[0].blocks = tables_[0].blocks.first(1);
  EXPECT_THAT(message(), HasSubstr("entry 1"));
}

TEST_F(BatchCheckTest, blocks_that_a_window_left_behind_may_be_missing) {
  blocks_[0][0] = kNoBlock;
  layer_.window_tokens = 1;
  EXPECT_EQ(message(), "");
  layer_.window_tokens = 2;
  EXPECT_THAT(message(), HasSubstr("entry 0"));
}

TEST_F(BatchCheckTest, wanted_rows_must_rise_within_the_batch) {
  wanted_ = {3, 2};
  EXPECT_THAT(message(), HasSubstr("do not rise below 4"));
  wanted_ = {4};
  EXPECT_THAT(message(), HasSubstr("do not rise below 4"));
}

TEST_F(BatchCheckTest, a_table_is_needed_for_every_group) {
  sequences_[1].tables = {};
  EXPECT_THAT(message(), HasSubstr("0 block tables for 1 KV groups"));
}

}  // namespace
}  // namespace tenon
