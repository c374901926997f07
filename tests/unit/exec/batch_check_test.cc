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
    shape_ = {.layer_count = 1,
              .hidden = 2,
              .vocabulary = 10,
              .context_tokens = 32,
              .group_count = 1,
              .groups = &group_,
              .layers = &layer_};
    tables_[0].blocks = blocks_[0];
    tables_[1].blocks = blocks_[1];
    sequences_ = {{.seq = 7, .first_row = 0, .rows = 3}, {.seq = 8, .first_row = 3, .rows = 1}};
  }

  Status check() {
    const BatchGroup group{slots_, kv_tokens_, tables_};
    BatchView batch;
    batch.rows = batch.padded_rows = static_cast<uint32_t>(tokens_.size());
    batch.padded_sequences = padded_sequences_;
    batch.tokens = tokens_;
    batch.positions = positions_;
    batch.tree_parents = parents_;
    batch.sees_to = sees_to_;
    batch.sequences = sequences_;
    batch.groups = {&group, groups_};
    batch.logits_rows = wanted_;
    batch.hidden_rows = hidden_rows_;
    batch.hidden_layers = hidden_layers_;
    batch.inputs = inputs_;
    return check_batch(batch, {&shape_, &geometry_, 8, 2, adapters_});
  }
  std::string message() { return std::string(check().message()); }

  KvGroup group_;
  LayerShape layer_;
  ModelShape shape_;
  KvGroupGeometry geometry_{.block_tokens = 4, .blocks = 6};
  std::vector<TokenId> tokens_ = {1, 2, 3, 9};
  std::vector<uint32_t> positions_ = {4, 5, 6, 0};
  std::vector<uint32_t> slots_ = {4, 5, 6, 0};
  std::vector<uint32_t> kv_tokens_ = {7, 1};
  std::vector<int32_t> parents_;
  std::vector<uint32_t> sees_to_;
  std::vector<uint32_t> hidden_rows_;
  std::vector<LayerId> hidden_layers_;
  TensorView inputs_;
  uint32_t adapters_ = 0;
  uint32_t padded_sequences_ = 2;
  size_t groups_ = 1;
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
  positions_.resize(9);
  EXPECT_THAT(message(), HasSubstr("the executor was loaded for 8 and 2"));
}

TEST_F(BatchCheckTest, arrays_must_have_one_entry_a_row) {
  positions_.pop_back();
  EXPECT_THAT(message(), HasSubstr("not one for each of its 4 rows"));
  positions_.push_back(0);
  slots_.pop_back();
  EXPECT_THAT(message(),
              HasSubstr("KV group 0 has 3 slots, 2 lengths and 2 block tables for 4 rows"));
}

TEST_F(BatchCheckTest, positions_have_a_number_for_each_axis) {
  shape_.position_axes = 3;
  EXPECT_THAT(message(), HasSubstr("not one for each of its 4 rows"));
  positions_.resize(12);
  EXPECT_EQ(message(), "");
}

TEST_F(BatchCheckTest, padding_may_not_be_shorter_than_the_batch) {
  padded_sequences_ = 1;
  EXPECT_THAT(message(), HasSubstr("is padded to 4 and 1; expected at least as many"));
}

TEST_F(BatchCheckTest, every_row_must_belong_to_a_sequence) {
  sequences_[1].rows = 0;
  EXPECT_THAT(message(), HasSubstr("sequences own 3"));
  sequences_[1] = {.seq = 8, .first_row = 2, .rows = 2};
  EXPECT_THAT(message(), HasSubstr("do not follow"));
  sequences_[1] = {.seq = 8, .first_row = 3, .rows = UINT32_MAX};
  EXPECT_THAT(message(), HasSubstr("do not follow"));
}

TEST_F(BatchCheckTest, slots_must_rise_by_one_below_kv_tokens) {
  slots_[2] = 7;
  EXPECT_THAT(message(), HasSubstr("row 2 at position 7"));
  slots_[2] = 5;
  EXPECT_THAT(message(), HasSubstr("row 2 at position 5"));
  slots_ = {4, 5, 6, 1};
  EXPECT_THAT(message(), HasSubstr("row 0 at position 1"));
}

TEST_F(BatchCheckTest, a_row_of_a_tree_follows_an_earlier_one_of_its_sequence) {
  parents_ = {-1, 0, 0, -1};
  EXPECT_EQ(message(), "");
  parents_[1] = 1;
  EXPECT_THAT(message(), HasSubstr("row 1 follows row 1"));
  parents_ = {-1, 0, 0, 2};
  EXPECT_THAT(message(), HasSubstr("row 3 follows row 2"));
  parents_.pop_back();
  EXPECT_THAT(message(), HasSubstr("not one for each of its 4 rows"));
}

TEST_F(BatchCheckTest, a_row_sees_up_to_a_later_one_of_its_sequence) {
  sees_to_ = {2, 2, 2, 3};
  EXPECT_EQ(message(), "");
  sees_to_[2] = 3;
  EXPECT_THAT(message(), HasSubstr("row 2 sees up to row 3"));
  sees_to_[2] = 1;
  EXPECT_THAT(message(), HasSubstr("row 2 sees up to row 1"));
}

TEST_F(BatchCheckTest, rows_without_a_token_need_their_input) {
  tokens_[2] = kNoToken;
  EXPECT_EQ(check().code(), StatusCode::invalid_argument);
  const float values[8] = {};
  inputs_ = {.data = values, .space = {}, .rank = 2, .shape = {4, 2}, .stride = {2, 1}};
  EXPECT_EQ(message(), "");
  inputs_.shape[1] = 3;
  EXPECT_THAT(message(), HasSubstr("expected f32 in host memory, [4, 2]"));
}

TEST_F(BatchCheckTest, adapters_are_those_that_were_loaded) {
  adapters_ = 4;
  sequences_[1].adapter = 4;
  EXPECT_EQ(message(), "");
  sequences_[1].adapter = 5;
  EXPECT_THAT(message(), HasSubstr("has the low-rank adapter 5; the executor was loaded with 4"));
}

TEST_F(BatchCheckTest, hidden_states_are_those_of_rows_and_layers_that_exist) {
  hidden_rows_ = {0, 3};
  hidden_layers_ = {0, 1};
  EXPECT_EQ(message(), "");
  hidden_layers_ = {2};
  EXPECT_THAT(message(), HasSubstr("layers whose hidden states are wanted do not rise below 2"));
  hidden_layers_ = {0};
  hidden_rows_ = {4};
  EXPECT_THAT(message(), HasSubstr("rows whose hidden states are wanted do not rise below 4"));
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
  group_.window_tokens = 1;
  EXPECT_EQ(message(), "");
  group_.window_tokens = 2;
  EXPECT_THAT(message(), HasSubstr("entry 0"));
}

TEST_F(BatchCheckTest, wanted_rows_must_rise_within_the_batch) {
  wanted_ = {3, 2};
  EXPECT_THAT(message(), HasSubstr("do not rise below 4"));
  wanted_ = {4};
  EXPECT_THAT(message(), HasSubstr("do not rise below 4"));
}

TEST_F(BatchCheckTest, tables_are_needed_for_every_group) {
  groups_ = 0;
  EXPECT_EQ(message(), "a batch has tables of 0 KV groups; the model has 1");
}

TEST_F(BatchCheckTest, of_a_recurrent_group_each_end_has_a_slot) {
  group_.kind = KvKind::recurrent;
  slots_.clear();
  kv_tokens_.clear();
  const uint32_t ends[] = {4, 7};
  tables_[0].ends = ends;
  tables_[1].ends = std::span(ends).first(1);
  EXPECT_EQ(message(), "");
  blocks_[1][0] = kNoBlock;
  EXPECT_EQ(message(), "") << "a sequence that starts from nothing";
  blocks_[0][1] = kNoBlock;
  EXPECT_THAT(message(), HasSubstr("the states of sequence 7 have no slot, or no later end, at 1"));
  tables_[0].ends = std::span(ends).first(1);
  EXPECT_THAT(message(), HasSubstr("2 slots for 1 ends"));
}

TEST_F(BatchCheckTest, only_layers_without_an_unknown_recurrence_are_run) {
  EXPECT_TRUE(check_decoder_shape(shape_).ok());
  layer_.state_group = 1;
  layer_.state_kind = "mamba2";
  EXPECT_TRUE(check_decoder_shape(shape_).ok());
  layer_.state_kind = "acme.wave";
  EXPECT_THAT(std::string(check_decoder_shape(shape_).message()),
              HasSubstr("layer 0 keeps a recurrent state of the kind 'acme.wave'; this executor "
                        "runs mamba, mamba2, gated_delta, short_conv and mlstm"));
  layer_.group = layer_.state_group = kNoGroup;
  EXPECT_TRUE(check_decoder_shape(shape_).ok());
  shape_.position_axes = 3;
  EXPECT_THAT(std::string(check_decoder_shape(shape_).message()),
              HasSubstr("positions have 3 numbers"));
}

}  // namespace
}  // namespace tenon
