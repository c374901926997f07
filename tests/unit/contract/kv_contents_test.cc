#include "core/contract/kv_contents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr uint32_t kBlock = 4;

// One group of eight blocks of four tokens, and a pool of two; steps of one row or more a sequence.
class Contents : public testing::Test {
 protected:
  Contents() {
    shape_.group_count = 1;
    shape_.groups = &group_;
    geometry_.group_count = 1;
    geometry_.groups = &sizes_;
    contents_.emplace(shape_, geometry_);
  }
  void begin(SeqId seq, std::vector<TokenId> tokens, uint64_t salt = 0) {
    KvSequence sequence;
    sequence.seq = seq;
    sequence.key.salt = salt;
    sequence.limit_tokens = 32;
    contents_->begin(sequence);
    tokens_[seq] = std::move(tokens);
    contents_->know(seq, tokens_[seq]);
  }
  struct Part {
    SeqId seq;
    uint32_t base;
    uint32_t rows;
    std::vector<BlockId> table;
    std::vector<TokenId> drafts = {};
  };
  std::string step(std::vector<Part> parts) {
    std::vector<TokenId> tokens;
    std::vector<uint32_t> positions, ends;
    std::vector<BatchSequence> sequences;
    std::vector<KvTableView> tables;
    for (const Part& part : parts) {
      sequences.push_back({part.seq, static_cast<uint32_t>(tokens.size()), part.rows, 0, 0});
      for (uint32_t i = part.base; i < part.base + part.rows; ++i) {
        const std::vector<TokenId>& known = tokens_[part.seq];
        tokens.push_back(i < known.size() ? known[i] : part.drafts.at(i - known.size()));
        positions.push_back(i);
      }
      ends.push_back(part.base + part.rows);
      tables.push_back({part.table, {}, 0});
    }
    const BatchGroup group{positions, ends, tables};
    BatchView batch;
    batch.rows = static_cast<uint32_t>(tokens.size());
    batch.tokens = tokens;
    batch.positions = positions;
    batch.sequences = sequences;
    batch.groups = {&group, 1};
    return std::string(contents_->write(batch).message());
  }

  KvGroup group_;
  ModelShape shape_;
  KvGroupGeometry sizes_{DType::f32, kBlock, 8, 8, 2};
  KvGeometry geometry_;
  std::optional<KvContents> contents_;
  std::map<SeqId, std::vector<TokenId>> tokens_;
};

const std::string kNever = "was never written – expected the sequence's own";
const std::string kOthers = "holds K/V of other tokens – expected the sequence's own";

TEST_F(Contents, of_ones_own_blocks_are_right) {
  begin(1, {5, 6, 7, 8, 9});
  EXPECT_EQ(step({{1, 0, 4, {3}}}), "");
  EXPECT_EQ(step({{1, 4, 1, {3, 0}}}), "");
}

TEST_F(Contents, of_a_block_given_to_two_sequences_in_one_step_are_noticed) {
  begin(1, {5, 6});
  begin(2, {5, 6});  // also where both write the same
  EXPECT_THAT(step({{1, 0, 2, {3}}, {2, 0, 2, {3}}}),
              HasSubstr("table gave block 3 to sequences 1 and 2, which both write to it"));
}

TEST_F(Contents, of_a_block_that_another_sequence_overwrote_are_noticed_when_they_are_read) {
  begin(1, {5, 6, 7});
  begin(2, {7, 8});
  EXPECT_EQ(step({{1, 0, 2, {3}}}), "");
  EXPECT_EQ(step({{2, 0, 2, {3}}}), "");
  EXPECT_THAT(step({{1, 2, 1, {3}}}), HasSubstr("block 3 as entry 0 of sequence 1, whose slot for "
                                                "position 0 " +
                                                kOthers));
}

TEST_F(Contents, of_a_block_that_its_sequence_gave_back_may_be_others) {
  begin(1, {5, 6, 7});
  begin(2, {7, 8});
  EXPECT_EQ(step({{1, 0, 2, {3}}}), "");
  contents_->release(1, ReleaseHow::recompute);
  EXPECT_EQ(step({{2, 0, 2, {3}}}), "");
  EXPECT_EQ(step({{1, 0, 3, {4}}}), "");
}

TEST_F(Contents, may_be_shared_where_the_tokens_are_the_same) {
  begin(1, {5, 6, 7, 8, 1});
  begin(2, {5, 6, 7, 8, 2});
  EXPECT_EQ(step({{1, 0, 5, {3, 4}}}), "");
  EXPECT_EQ(step({{2, 4, 1, {3, 5}}}), "");
}

TEST_F(Contents, of_a_prefix_that_is_another_text_are_noticed) {
  begin(1, {5, 6, 7, 8, 1});
  begin(2, {5, 6, 7, 9, 2});
  EXPECT_EQ(step({{1, 0, 5, {3, 4}}}), "");
  EXPECT_THAT(step({{2, 4, 1, {3, 5}}}), HasSubstr("position 3 " + kOthers));
}

TEST_F(Contents, are_not_shared_between_keys) {
  begin(1, {5, 6, 7, 8, 1});
  begin(2, {5, 6, 7, 8, 1}, 77);
  EXPECT_EQ(step({{1, 0, 5, {3, 4}}}), "");
  EXPECT_THAT(step({{2, 4, 1, {3, 5}}}), HasSubstr(kOthers));
}

TEST_F(Contents, that_were_never_computed_are_noticed) {
  begin(1, {5, 6, 7});
  EXPECT_THAT(step({{1, 2, 1, {3}}}), HasSubstr("position 0 " + kNever));
}

TEST_F(Contents, of_rejected_drafts_are_replaced) {
  begin(1, {5, 6});
  EXPECT_EQ(step({{1, 0, 4, {3}, {90, 91}}}), "");
  contents_->keep(1, 2);
  tokens_[1] = {5, 6, 7, 8, 9};
  contents_->know(1, tokens_[1]);
  EXPECT_EQ(step({{1, 2, 2, {3}}}), "");
  EXPECT_EQ(step({{1, 4, 1, {3, 1}}}), "");
}

TEST_F(Contents, of_drafts_that_were_kept_by_mistake_are_noticed) {
  begin(1, {5, 6});
  EXPECT_EQ(step({{1, 0, 3, {3}, {90}}}), "");
  contents_->keep(1, 2);
  tokens_[1] = {5, 6, 7, 8};
  contents_->know(1, tokens_[1]);
  EXPECT_THAT(step({{1, 3, 1, {3}}}), HasSubstr("position 2 " + kOthers));
}

TEST_F(Contents, follow_moves_to_the_pool_and_back) {
  begin(1, {5, 6, 7, 8, 9});
  EXPECT_EQ(step({{1, 0, 4, {3}}}), "");
  contents_->move({0, {{}, 3, 0}, {{}, 1, 0, KvTier::swap}, 4});
  contents_->release(1, ReleaseHow::swap);
  begin(2, {1, 2});
  EXPECT_EQ(step({{2, 0, 2, {3}}}), "");
  contents_->move({0, {{}, 1, 0, KvTier::swap}, {{}, 6, 0}, 4});
  EXPECT_EQ(step({{1, 4, 1, {6, 7}}}), "");
}

TEST_F(Contents, that_a_move_destroyed_are_noticed) {
  begin(1, {5, 6, 7});
  EXPECT_EQ(step({{1, 0, 2, {3}}}), "");
  contents_->move({0, {{}, 0, 0}, {{}, 3, 1}, 1});
  EXPECT_THAT(step({{1, 2, 1, {3}}}), HasSubstr("position 1 " + kNever));
}

TEST_F(Contents, need_a_table_that_is_long_enough_and_has_blocks) {
  begin(1, {5, 6, 7, 8, 9});
  EXPECT_THAT(step({{1, 0, 5, {3}}}), HasSubstr("table has 1 entries for sequence 1 – expected 2"));
  EXPECT_THAT(step({{1, 0, 5, {3, kNoBlock}}}), HasSubstr("gave block -1 as entry 1"));
}

TEST_F(Contents, of_an_entry_that_changes_in_the_middle_of_a_table_are_noticed) {
  begin(1, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
  EXPECT_EQ(step({{1, 0, 12, {3, 4, 5}}}), "");
  EXPECT_EQ(step({{1, 12, 1, {3, 4, 5, 6}}}), "");
  EXPECT_THAT(step({{1, 13, 1, {3, 7, 5, 6}}}),
              HasSubstr("block 7 as entry 1 of sequence 1, whose slot for position 4 " + kNever));
}

TEST_F(Contents, need_a_block_again_where_one_was_refused) {
  begin(1, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(step({{1, 0, 9, {3, kNoBlock, 5}}}), HasSubstr("gave block -1 as entry 1"));
  }
  EXPECT_EQ(step({{1, 0, 9, {3, 4, 5}}}), "");
  contents_->keep(1, 4);
  EXPECT_THAT(step({{1, 4, 5, {3, kNoBlock, kNoBlock}}}), HasSubstr("gave block -1 as entry 1"));
}

TEST_F(Contents, that_were_overwritten_while_a_sequence_had_no_rows_are_noticed) {
  begin(1, {5, 6, 7});
  begin(2, {7, 8});
  EXPECT_EQ(step({{1, 0, 2, {3}}}), "");
  EXPECT_EQ(step({{2, 0, 2, {3}}, {1, 2, 0, {3}}}), "");
  EXPECT_THAT(step({{1, 2, 1, {3}}}), HasSubstr("position 0 " + kOthers));
}

TEST_F(Contents, of_blocks_of_any_size_are_told_apart) {
  sizes_.block_tokens = 3;
  contents_.emplace(shape_, geometry_);
  begin(1, {1, 2, 3, 4, 5, 6, 7, 8});
  begin(2, {9, 9, 9});
  EXPECT_EQ(step({{1, 0, 5, {3, 4}}, {2, 0, 2, {5}}}), "");
  EXPECT_EQ(step({{1, 5, 2, {3, 4, 6}}, {2, 2, 1, {5}}}), "");
  EXPECT_THAT(step({{1, 7, 1, {3, 5, 6}}}), HasSubstr("position 3 " + kOthers));
}

TEST_F(Contents, behind_a_window_are_not_looked_at) {
  group_.window_tokens = 3;
  contents_.emplace(shape_, geometry_);
  begin(1, {5, 6, 7, 8, 9, 10, 11});
  EXPECT_EQ(step({{1, 0, 6, {3, 4}}}), "");
  contents_->keep(1, 6);
  begin(2, {1, 2});
  EXPECT_EQ(step({{2, 0, 2, {3}}}), "");
  EXPECT_EQ(step({{1, 6, 1, {kNoBlock, 4}}}), "");
}

}  // namespace
}  // namespace tenon
