#include "core/compare/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::compare {
namespace {

using testing::HasSubstr;

RequestRow some_row() {
  return {.index = 3,
          .sample = 1,
          .prompt_tokens = 20,
          .tokens = 7,
          .reused_tokens = 16,
          .preemptions = 2,
          .arrival_ms = 12.5,
          .ttft_ms = 30.25,
          .tpot_ms = 4.5,
          .longest_gap_ms = 9.75,
          .latency_ms = 80,
          .finish = "length",
          .answer = "0123",
          .text = "4567",
          .digest = "89ab"};
}

MeasuredPiece some_piece() {
  MeasuredPiece piece{.kind = PieceKind::probe, .arm = "b", .block = 4, .again = true};
  piece.process = 2;
  piece.rate = 1.5;
  piece.before = {30, 100, 400, 800, 0.9};
  piece.after = {31, 101, 401, 801, 0.8};
  piece.processor_share = 0.95;
  piece.seconds = 2.25;
  piece.waited_seconds = 1.125;
  piece.generated_tokens = 77;
  piece.gap_ms = {1, 2, 3, 4, 5, 6};
  piece.prefill = {1, 2, 3, 4, 5, 6};
  piece.decode = {7, 8, 9, 10, 11, 12};
  piece.counters = {{"steps", 12}, {"kv_cache.hits", 0.5}};
  piece.turns = {{0.5, 0.25}, {0.75, 1.5}};
  piece.timeline = {{0.5, 1, 2, 3, 4}, {1.5, 5, 6, 7, 8}};
  return piece;
}

// What was read back is written as what was read, and no member is missing in both.
template <typename T, typename Write, typename Read>
void expect_same_again(const T& value, size_t members, const Write& write, const Read& read) {
  const Json json = write(value);
  EXPECT_EQ(json.size(), members);
  const auto again = read(Json::parse(json.dump()));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(write(*again), json);
}

TEST(CompareJson, a_row_comes_back_as_it_was) {
  expect_same_again(some_row(), 15, row_json, row_of);
  const auto again = row_of(row_json(some_row()));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->longest_gap_ms, 9.75);
  EXPECT_EQ(again->digest, "89ab");
}

TEST(CompareJson, a_piece_comes_back_as_it_was) {
  expect_same_again(some_piece(), 18, piece_json, piece_of);
  const auto again = piece_of(piece_json(some_piece()));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->kind, PieceKind::probe);
  EXPECT_EQ(again->gap_ms.most, 5);
  EXPECT_EQ(again->decode[5], 12);
  EXPECT_EQ(again->timeline[1].kv_tokens, 8u);
  ASSERT_EQ(again->turns.size(), 2u);
  EXPECT_EQ(again->turns[1].cpu_seconds, 1.5);
  EXPECT_EQ(again->after.int8_gops, 801);
}

TEST(CompareJson, every_kind_of_piece_keeps_its_name) {
  for (const PieceKind kind :
       {PieceKind::warm_up, PieceKind::noise, PieceKind::measured, PieceKind::probe}) {
    MeasuredPiece piece = some_piece();
    piece.kind = kind;
    const auto again = piece_of(piece_json(piece));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->kind, kind);
  }
}

TEST(CompareJson, an_arm_comes_back_with_its_fidelity) {
  MeasuredArm arm{.name = "b",
                  .differences = {"x: 1 → 2"},
                  .numerics = "n",
                  .hash = "h",
                  .resolved = "format = 1\n",
                  .plugins = {{"scheduler", "fair"}}};
  arm.is_server = true;
  arm.leaves_waits_out = true;
  arm.model = "tale, 6 layers of 64";
  arm.formats = "weights bf16; K/V i8";
  arm.fidelity = {.text = "valid.txt",
                  .tokens = 100,
                  .same_top = 0.9,
                  .base_perplexity = 5,
                  .perplexity = 6,
                  .kl_p99_nats = 0.25,
                  .window_kl_nats = {0.5, 0.75},
                  .window_nats_more = {0.125}};
  expect_same_again(arm, 11, arm_json, arm_of);
  arm.fidelity = {.fault = "another tokenizer"};
  const auto again = arm_of(arm_json(arm));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->fidelity.fault, "another tokenizer");
}

TEST(CompareJson, a_plan_comes_back_as_it_was) {
  MeasuredPlan plan;
  plan.title = "t";
  plan.primary = "ttft_p50";
  plan.cache = "warm";
  plan.open_loop = true;
  plan.same_answers = false;
  plan.margin = 0.02;
  plan.slo_share = 0.8;
  plan.probes = 6;
  plan.workload_hash = "w";
  plan.ended = "40 pairs were run";
  plan.seed = 7;
  plan.restart = 3;
  plan.looks = 0.5;
  plan.at_end = true;
  plan.date = "2026-11-29 07:15 UTC";
  plan.others = "other programs used 1.2 of 2 processors";
  plan.expect = {{"throughput", 1.1, 1.5}};
  plan.pairs_seconds = 12.5;
  plan.start_seconds = 0.75;
  expect_same_again(plan, 29, plan_json, plan_of);
  plan.restart = 0;
  plan.restart_affordable = true;
  const auto again = plan_of(plan_json(plan));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->restart_affordable);
  EXPECT_EQ(again->restart, 0u);
}

TEST(CompareJson, what_older_programs_did_not_write_has_its_default) {
  Json json = piece_json(some_piece());
  json.erase("process");
  json.erase("rate");
  json.erase("turns");
  json["machine_before"].erase("bf16_gflops");
  const auto piece = piece_of(json);
  ASSERT_TRUE(piece.ok()) << piece.status().message();
  EXPECT_EQ(piece->process, 0u);
  EXPECT_EQ(piece->rate, 0);
  EXPECT_EQ(piece->before.bf16_gflops, 0);
  EXPECT_TRUE(piece->turns.empty());
  Json head = plan_json({});
  for (const char* name : {"looks", "at_end", "others"}) head.erase(name);
  const auto plan = plan_of(head);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->looks, 1) << "a sequence, with all of the doubt";
  EXPECT_FALSE(plan->at_end);
}

TEST(CompareJson, a_missing_or_wrong_member_is_named) {
  Json json = row_json(some_row());
  json.erase("latency_ms");
  EXPECT_THAT(std::string(row_of(json).status().message()), HasSubstr("latency_ms"));
  json = row_json(some_row());
  json["tokens"] = "seven";
  const Status status = row_of(json).take_status();
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a request's row"));
}

}  // namespace
}  // namespace tenon::compare
