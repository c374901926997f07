#include "core/engine/records/metrics.h"

#include <gtest/gtest.h>

#include <utility>

namespace tenon {
namespace {

StepRecord step_of(uint32_t rows, uint32_t running, uint32_t idle, uint64_t reserved,
                   uint64_t used) {
  StepRecord step;
  step.rows = rows;
  step.running = running;
  step.idle_rows = idle;
  step.kv_reserved_tokens = reserved;
  step.kv_used_tokens = used;
  return step;
}

TEST(EngineTotals, count_a_row_step_for_each_slot_that_is_held) {
  EngineTotals totals;
  totals.add(step_of(40, 3, 1, 0, 0));
  totals.add(step_of(2, 2, 2, 0, 0));
  totals.add(step_of(0, 5, 5, 0, 0));  // computed nothing
  EXPECT_EQ(totals.steps, 2u);
  EXPECT_EQ(totals.row_steps, 8u);
  EXPECT_EQ(totals.idle_row_steps, 3u);
  EXPECT_EQ(totals.rows_computed, 42u);
}

TEST(EngineTotals, weigh_unused_memory_by_what_was_reserved) {
  EngineTotals totals;
  EXPECT_EQ(totals.kv_unused_fraction(), 0.0);
  totals.add(step_of(1, 1, 0, 100, 50));
  totals.add(step_of(1, 1, 0, 300, 250));
  EXPECT_DOUBLE_EQ(totals.kv_unused_fraction(), 0.25);
  EXPECT_DOUBLE_EQ(totals.mean_kv_reserved_tokens(), 200.0);
  EXPECT_DOUBLE_EQ(totals.mean_kv_used_tokens(), 150.0);
}

TEST(RequestRecord, has_no_times_without_tokens) {
  RequestRecord record;
  EXPECT_EQ(record.time_to_first_token_ns(), -1);
  EXPECT_EQ(record.time_per_output_token_ns(), 0.0);
  record.arrival_ns = 5;
  record.token_ns = {25};
  EXPECT_EQ(record.time_to_first_token_ns(), 20);
  EXPECT_EQ(record.time_per_output_token_ns(), 0.0);
  record.token_ns = {25, 35, 65};
  EXPECT_EQ(record.time_per_output_token_ns(), 20.0);
}

TEST(Stopwatch, adds_the_clock_s_time) {
  VirtualClock clock;
  int64_t spent = 10;
  {
    Stopwatch watch(clock, spent);
    clock.advance(7);
  }
  EXPECT_EQ(spent, 17);
}

// Drafts of so many tokens, of which so many were kept: drafts, tokens, kept, kept by place.
struct DraftCase {
  std::vector<std::pair<uint32_t, uint32_t>> drafts;
  uint64_t count, tokens, accepted;
  std::vector<uint64_t> accepted_at;
};

TEST(DraftStatistics, count_drafts_their_tokens_and_what_was_kept_in_each_place) {
  const DraftCase cases[] = {
      {{{3, 3}}, 1, 3, 3, {1, 1, 1}},         // [1 2 3] against 1 2 3 4
      {{{3, 1}}, 1, 3, 1, {1, 0, 0}},         // [1 2 3] against 1 5
      {{{2, 2}, {1, 1}}, 2, 3, 3, {2, 1}},    // [1 2] and [3], all right
      {{{1, 1}}, 1, 1, 1, {1}},               // [1] against 1 2
      {{{0, 0}}, 0, 0, 0, {}},                // no draft
      {{{3, 2}, {3, 1}}, 2, 6, 3, {2, 1, 0}}  // [1 2 3] against 1 2 7, [4 5 6] against 4 8
  };
  for (const DraftCase& expected : cases) {
    DraftStatistics found;
    for (const auto& [tokens, accepted] : expected.drafts) found.add(tokens, accepted);
    EXPECT_EQ(found.drafts, expected.count);
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.accepted, expected.accepted);
    EXPECT_EQ(found.accepted_at, expected.accepted_at);
  }
}

}  // namespace
}  // namespace tenon
