// Steps as JSON: what an observer was told, no more and no less.
#include "core/server/api/write/step_json.h"

#include <gtest/gtest.h>

#include "core/server/api/read/json.h"

namespace tenon::api {
namespace {

Json written(const ObservedStep& step) {
  std::string text;
  append_step_json(step, text);
  EXPECT_EQ(text.find('\n'), text.npos);
  return Json::parse(text);
}

ObservedStep one_step() {
  ObservedStep step;
  step.record.step_id = 7;
  step.record.start_ns = 5'000'999;
  step.record.end_ns = 7'001'999;
  step.record.rows = 34;
  step.record.times.executor_ns = 1'500'000;
  step.usage.total_tokens = 64;
  step.usage.free_tokens = 16;
  step.blocks = {4, 5, 6, 2, 9, 10};
  ObservedSequence& first = step.sequences.emplace_back();
  first.id = 3;
  first.request = 2;
  first.prefill_rows = 33;
  first.first_token_ns = 12'000;
  first.block_count = 4;
  ObservedSequence& second = step.sequences.emplace_back();
  second.id = 0;
  second.state = ObservedState::ended;
  second.decode_rows = 1;
  second.drafts = 4;
  second.kept_drafts = 2;
  second.gap_ns = 3'000;
  second.first_block = 4;
  second.block_count = 2;
  step.sequences.emplace_back().state = ObservedState::waiting;
  return step;
}

TEST(StepJson, has_times_in_microseconds) {
  const Json json = written(one_step());
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["start_us"], 5000);
  EXPECT_EQ(json["time_us"], 2001);
  EXPECT_EQ(json["times_us"]["executor"], 1500);
  EXPECT_EQ(json["kv"]["total_tokens"], 64);
  EXPECT_EQ(json["kv"]["free_tokens"], 16);
}

TEST(StepJson, has_each_sequence_with_its_rows) {
  const Json sequences = written(one_step())["sequences"];
  ASSERT_EQ(sequences.size(), 3u);
  EXPECT_EQ(sequences[0]["prefill"], 33);
  EXPECT_EQ(sequences[0]["first_token_us"], 12);
  EXPECT_FALSE(sequences[0].contains("gap_us"));
  EXPECT_EQ(sequences[1]["state"], "ended");
  EXPECT_EQ(sequences[1]["decode"], 1);
  EXPECT_EQ(sequences[1]["drafts"], 4);
  EXPECT_EQ(sequences[1]["kept"], 2);
  EXPECT_EQ(sequences[1]["gap_us"], 3);
  EXPECT_EQ(sequences[2]["state"], "waiting");
}

TEST(StepJson, writes_blocks_as_runs) {
  const Json sequences = written(one_step())["sequences"];
  EXPECT_EQ(sequences[0]["blocks"], Json::parse("[[4,3],[2,1]]"));
  EXPECT_EQ(sequences[1]["blocks"], Json::parse("[[9,2]]"));
  EXPECT_EQ(sequences[2]["blocks"], Json::array());
}

TEST(StepJson, says_what_was_left_out) {
  ObservedStep step = one_step();
  EXPECT_EQ(written(step)["left_out_blocks"], false);
  step.left_out_sequences = 9;
  step.left_out_blocks = true;
  EXPECT_EQ(written(step)["left_out_sequences"], 9);
  EXPECT_EQ(written(step)["left_out_blocks"], true);
}

}  // namespace
}  // namespace tenon::api
