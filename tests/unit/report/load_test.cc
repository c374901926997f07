#include "core/report/load.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LoadSample answered(size_t index, double ttft_ms) {
  return {.index = index,
          .due_ms = static_cast<double>(index),
          .ttft_ms = ttft_ms,
          .latency_ms = ttft_ms + 20,
          .gaps_ms = {10, 10},
          .tpot_ms = 10,
          .prompt_tokens = 5,
          .tokens = 3,
          .counted_by = "usage"};
}
LoadRun run_of(size_t requests) {
  LoadRun run{.server = "http://h", .model = "m", .work = "some requests", .seconds = 2};
  // No order, so that nothing grows.
  for (size_t i = 0; i < requests; ++i) {
    run.samples.push_back(answered(i, static_cast<double>((i * 37) % requests) + 1));
  }
  return run;
}
LoadSample failed_as(const char* trouble, const char* message) {
  return {.counted_by = "nothing", .trouble = trouble, .message = message};
}
const LoadFigure& figure(const LoadSummary& summary, const std::string& name) {
  return *std::find_if(summary.figures.begin(), summary.figures.end(),
                       [&](const LoadFigure& one) { return one.name == name; });
}

TEST(LoadSummary, counts_what_was_answered) {
  LoadRun run = run_of(4);
  run.samples.push_back(failed_as("refused", "HTTP 429: full"));
  run.samples.push_back(failed_as("stopped", ""));
  const LoadSummary summary = summary_of(run);
  EXPECT_EQ(summary.answered, 4u);
  EXPECT_EQ(summary.failed, 1u);
  EXPECT_EQ(summary.unanswered, 1u);
  EXPECT_EQ(summary.tokens, 12u);
  EXPECT_DOUBLE_EQ(summary.tokens_per_second, 6);
  EXPECT_DOUBLE_EQ(summary.requests_per_second, 2);
}

TEST(LoadSummary, leaves_failed_requests_out_of_the_figures) {
  LoadRun run = run_of(4);
  run.samples.push_back(failed_as("timeout", "silent"));
  run.samples.back().latency_ms = 1e6;
  EXPECT_LT(figure(summary_of(run), "latency").most, 1000);
}

TEST(LoadSummary, has_no_figure_of_what_nobody_knows) {
  LoadRun run = run_of(4);
  for (LoadSample& sample : run.samples) sample.ttft_ms = sample.tpot_ms = -1;
  EXPECT_THAT(load_text(run, summary_of(run)), Not(HasSubstr("ttft")));
}

TEST(LoadSummary, bounds_quantiles_where_requests_are_few) {
  const LoadSummary few = summary_of(run_of(50));
  EXPECT_TRUE(figure(few, "ttft").p50.bounded());
  EXPECT_FALSE(figure(few, "ttft").p99.bounded());
  EXPECT_THAT(load_text(run_of(50), few), HasSubstr("≥ "));
  const LoadSummary many = summary_of(run_of(400));
  EXPECT_TRUE(figure(many, "ttft").p99.bounded());
  EXPECT_TRUE(figure(many, "ttft").p99.holds(396));
  EXPECT_THAT(load_text(run_of(400), many), Not(HasSubstr("≥ ")));
}

TEST(LoadSummary, gives_gaps_no_intervals) {
  const LoadSummary summary = summary_of(run_of(400));
  EXPECT_FALSE(figure(summary, "gap").has_intervals);
  EXPECT_EQ(figure(summary, "gap").count, 800u);
}

TEST(LoadSummary, sorts_troubles_by_how_many_there_are) {
  LoadRun run = run_of(1);
  run.samples.push_back(failed_as("closed", "cut"));
  run.samples.push_back(failed_as("refused", "HTTP 429: full"));
  run.samples.push_back(failed_as("refused", "HTTP 429: full"));
  const LoadSummary summary = summary_of(run);
  ASSERT_EQ(summary.troubles.size(), 2u);
  EXPECT_EQ(summary.troubles[0].kind, "refused");
  EXPECT_EQ(summary.troubles[0].count, 2u);
  EXPECT_THAT(load_text(run, summary), HasSubstr("2 × refused: HTTP 429: full\n"));
}

TEST(LoadSummary, says_that_the_generator_was_late) {
  LoadRun run = run_of(50);
  EXPECT_TRUE(summary_of(run).notes.empty());
  run.samples[7].late_ms = 11;
  const LoadSummary late = summary_of(run);
  EXPECT_DOUBLE_EQ(late.late_share, 0.02);
  EXPECT_THAT(load_text(run, late), HasSubstr("2.0 % of the requests were sent more than 10 ms"));
}

TEST(LoadSummary, says_that_an_open_loop_is_saturated) {
  LoadRun run = run_of(0);
  for (size_t i = 0; i < 60; ++i) run.samples.push_back(answered(i, 1 + static_cast<double>(i)));
  EXPECT_TRUE(summary_of(run).notes.empty());
  run.open_loop = true;
  EXPECT_THAT(load_text(run, summary_of(run)), HasSubstr("saturated"));
}

TEST(LoadSummary, says_who_counted_tokens) {
  LoadRun run = run_of(3);
  run.samples[0].counted_by = "events";
  EXPECT_THAT(load_text(run, summary_of(run)), HasSubstr("pieces of text were counted"));
}

TEST(LoadSummary, writes_a_table_of_as_many_columns_as_its_first_line) {
  const std::string csv = load_csv(summary_of(run_of(5)));
  const auto commas = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  size_t begin = 0, lines = 0;
  for (size_t end; (end = csv.find('\n', begin)) != csv.npos; begin = end + 1, ++lines) {
    EXPECT_EQ(commas(csv.substr(begin, end - begin)), 13) << csv.substr(begin, end - begin);
  }
  EXPECT_EQ(lines, 8u);
  EXPECT_THAT(csv, HasSubstr("\nttft,ms,5,3,5,3,,,,3,,,4,\n"));
}

TEST(LoadSummary, says_what_is_missing_where_it_was_ended) {
  LoadRun run = run_of(2);
  run.ended_by = "SIGINT";
  run.unsent = 3;
  run.samples.push_back(failed_as("stopped", ""));
  EXPECT_THAT(load_text(run, summary_of(run)),
              HasSubstr("partial: ended by SIGINT, 1 requests not answered, 3 not sent"));
}

}  // namespace
}  // namespace tenon
