#include "core/contract/state_contents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A group of K and V, and after it one of six slots with a pool of two. A row is named by a
// number.
class StateNames : public testing::Test {
 protected:
  struct Part {
    SeqId seq;
    uint32_t base;
    uint64_t before;
    std::vector<uint64_t> names;
    std::vector<BlockId> slots;
    std::vector<uint32_t> ends;
  };

  StateNames() {
    groups_[1].kind = KvKind::recurrent;
    shape_.group_count = geometry_.group_count = 2;
    shape_.groups = groups_;
    geometry_.groups = sizes_;
    contents_.emplace(shape_, geometry_);
  }
  std::string step(const std::vector<Part>& parts) {
    std::vector<KvTableView> none(parts.size()), tables;
    for (const Part& part : parts) tables.push_back({part.slots, part.ends, 0});
    const BatchGroup groups[] = {{{}, {}, none}, {{}, {}, tables}};
    BatchView batch;
    batch.groups = groups;
    contents_->begin_step();
    Status status;
    const auto rows = [](const Part& part) {
      return StateContents::Rows{part.seq, part.base, part.before, part.names};
    };
    for (size_t i = 0; i < parts.size() && status.ok(); ++i) {
      status = contents_->start(batch, i, rows(parts[i]));
    }
    for (size_t i = 0; i < parts.size() && status.ok(); ++i) {
      status = contents_->write(batch, i, rows(parts[i]));
    }
    return std::string(status.message());
  }

  KvGroup groups_[2];
  KvGroupGeometry sizes_[2] = {{DType::f32, 4, 8, 8, 2}, {DType::u8, 1, 6, 8, 2}};
  ModelShape shape_;
  KvGeometry geometry_;
  std::optional<StateContents> contents_;
};

TEST_F(StateNames, follow_the_slots_that_rows_reach) {
  EXPECT_EQ(step({{1, 0, 0, {11, 12, 13}, {kNoBlock, 0, 1}, {0, 2, 3}}}), "");
  EXPECT_EQ(step({{1, 3, 13, {14}, {1, 2}, {3, 4}}, {2, 2, 12, {21}, {0, 3}, {2, 3}}}), "")
      << "another sequence with the same two tokens starts from the state on the way";
  EXPECT_EQ(step({{1, 4, 14, {15, 16}, {2, 4, 5, 0}, {4, 5, 6, 7}}}), "");
  EXPECT_EQ(step({{2, 2, 12, {22}, {0, 3}, {2, 3}}}), "") << "a draft less left slot 0 as it was";
}

TEST_F(StateNames, refuse_a_state_of_other_tokens_or_of_none) {
  EXPECT_EQ(step({{1, 0, 0, {11, 12}, {kNoBlock, 0}, {0, 2}}}), "");
  EXPECT_EQ(step({{2, 2, 99, {21}, {0, 1}, {2, 3}}}),
            "table gave slot 0 as the state after 2 tokens of sequence 2, which holds the state "
            "after other tokens – expected the sequence's own");
  EXPECT_THAT(step({{2, 2, 12, {21}, {4, 1}, {2, 3}}}), HasSubstr("which was never written"));
  EXPECT_THAT(step({{2, 2, 0, {21}, {4, 1}, {2, 3}}}), HasSubstr("which was never written"))
      << "that nobody knows the tokens is no excuse";
}

TEST_F(StateNames, refuse_a_start_elsewhere) {
  EXPECT_EQ(step({{1, 0, 0, {11, 12}, {kNoBlock, 0}, {0, 2}}}), "");
  EXPECT_THAT(step({{1, 3, 13, {14}, {0, 1}, {2, 4}}}),
              AllOf(HasSubstr("after 2 tokens"), HasSubstr("whose rows begin after 3")));
  EXPECT_THAT(step({{1, 2, 12, {13}, {kNoBlock, 1}, {2, 3}}}), HasSubstr("slot -1"));
  EXPECT_THAT(step({{1, 2, 12, {13}, {6, 1}, {2, 3}}}), HasSubstr("expected 0 to 5"));
}

TEST_F(StateNames, refuse_a_slot_that_is_not_the_writers_own) {
  EXPECT_EQ(step({{1, 0, 0, {11, 12}, {kNoBlock, 0}, {0, 2}}}), "");
  EXPECT_THAT(step({{1, 2, 12, {13}, {0, 1}, {2, 3}}, {2, 0, 0, {21}, {kNoBlock, 0}, {0, 1}}}),
              HasSubstr("which the step starts from as well"));
  EXPECT_THAT(step({{1, 2, 12, {13}, {0, 1}, {2, 3}}, {2, 0, 0, {21}, {kNoBlock, 1}, {0, 1}}}),
              HasSubstr("sequence 2, which the step writes to twice"));
  EXPECT_THAT(step({{1, 2, 12, {13}, {0, 9}, {2, 3}}}), HasSubstr("which is none"));
}

TEST_F(StateNames, move_with_the_slots) {
  EXPECT_EQ(step({{1, 0, 0, {11, 12}, {kNoBlock, 0}, {0, 2}}}), "");
  contents_->move({1, {{}, 0, 0}, {{}, 1, 0, KvTier::swap}, 1});
  EXPECT_EQ(step({{2, 0, 0, {21}, {kNoBlock, 0}, {0, 1}}}), "");
  contents_->move({1, {{}, 1, 0, KvTier::swap}, {{}, 3, 0}, 1});
  contents_->move({0, {{}, 0, 0}, {{}, 3, 0}, 4});
  EXPECT_EQ(step({{1, 2, 12, {13}, {3, 4}, {2, 3}}}), "");
}

}  // namespace
}  // namespace tenon
