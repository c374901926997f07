#include "core/workload/published_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/workload/prompts.h"
#include "core/workload/workload.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::HasSubstr;

class TraceTest : public testing::Test {
 protected:
  TraceWorkload read(const std::string& name, const std::string& text, const TraceCut& cut = {}) {
    const auto made = read_trace(folder_.write_file(name, text), cut);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? *made : TraceWorkload();
  }
  // The requests of a workload that was made.
  std::vector<WorkloadRequest> requests_of(const TraceWorkload& made) {
    auto workload = parse_workload(made.toml, "made.toml");
    EXPECT_TRUE(workload.ok()) << workload.status().message();
    return workload.ok() ? workload->requests : std::vector<WorkloadRequest>();
  }
  std::string error_of(const std::string& name, const std::string& text) {
    const auto made = read_trace(folder_.write_file(name, text), {});
    return made.ok() ? "" : std::string(made.status().message());
  }

  static constexpr const char* kAzure =
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 18:15:46.5,100,10\n"
      "2023-11-16 18:15:48.5,300,30\n"
      "2023-11-16 18:15:47.0,200,20\n"
      "2023-11-16 18:15:49.0,0,5\n";
  TemporaryFolder folder_;
};

TEST_F(TraceTest, rows_become_requests_in_the_order_of_their_arrival) {
  const TraceWorkload made = read("azure.csv", kAzure);
  EXPECT_EQ(made.requests, 3u);
  EXPECT_EQ(made.empty, 1u);
  const auto requests = requests_of(made);
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].arrival_ns, 500'000'000);
  EXPECT_EQ(requests[2].arrival_ns, 2'000'000'000);
  EXPECT_EQ(requests[1].max_tokens, 20u);
  EXPECT_EQ(tokens_of(requests[2].drawn), 300u);
}

TEST_F(TraceTest, a_cut_scales_skips_and_leaves_out) {
  const TraceWorkload made = read(
      "azure.csv", kAzure, {.skip = 1, .scale = 2, .length_scale = 0.5, .context_tokens = 120});
  EXPECT_EQ(made.too_long, 1u);  // 150 and 15
  const auto requests = requests_of(made);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(tokens_of(requests[0].drawn), 100u);
  EXPECT_EQ(requests[0].max_tokens, 10u);
}

TEST_F(TraceTest, blocks_of_one_hash_are_shared) {
  const TraceWorkload made =
      read("mooncake.jsonl",
           R"({"timestamp": 0, "input_length": 600, "output_length": 4, "hash_ids": [7, 8]})"
           "\n"
           R"({"timestamp": 10, "input_length": 700, "output_length": 4, "hash_ids": [7, 9]})"
           "\n");
  const auto requests = requests_of(made);
  ASSERT_EQ(requests.size(), 2u);
  ASSERT_EQ(requests[0].drawn.size(), 2u);
  EXPECT_EQ(requests[0].drawn[0].stream, requests[1].drawn[0].stream);
  EXPECT_NE(requests[0].drawn[1].stream, requests[1].drawn[1].stream);
  EXPECT_EQ(tokens_of(requests[1].drawn), 700u);
}

TEST_F(TraceTest, traces_are_told_from_prompts_by_name_and_contents) {
  EXPECT_TRUE(is_trace("whatever.csv"));
  EXPECT_TRUE(is_trace(folder_.write_file("t.jsonl", "{\"input_length\": 3}\n")));
  EXPECT_FALSE(is_trace(folder_.write_file("p.jsonl", "{\"prompt\": \"input\"}\n")));
  EXPECT_TRUE(is_trace("A.CSV"));
  EXPECT_FALSE(is_trace("work.toml"));
}

TEST_F(TraceTest, spreadsheets_and_other_systems_may_have_written_it) {
  const std::string marked = std::string("\xEF\xBB\xBF") + kAzure;
  EXPECT_EQ(read("marked.csv", marked).toml, read("marked.csv", kAzure).toml);
  const TraceWorkload made =
      read("quoted.CSV",
           "\"Timestamp\",\"Model\",\"Request tokens\",\"Response tokens\"\r\n"
           "\"5\",\"GPT-4, \"\"old\"\"\",\"10\",\"2\"\r\n");
  const auto requests = requests_of(made);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(tokens_of(requests[0].drawn), 10u);
}

TEST_F(TraceTest, a_workload_may_be_one) {
  const std::string path = folder_.write_file("azure.csv", kAzure);
  const auto workload = read_workload(path);
  ASSERT_TRUE(workload.ok()) << workload.status().message();
  EXPECT_EQ(workload->requests.size(), 3u);
  const auto work = read_work(path);
  ASSERT_TRUE(work.ok()) << work.status().message();
  EXPECT_EQ(tokens_of(work->at(1).drawn), 200u);
  EXPECT_EQ(read_work(folder_.write_file("a.txt", kAzure))->size(), 5u);  // prompts, one a line
}

TEST_F(TraceTest, faults_name_file_and_line) {
  for (const char* time : {"2023-11-16 24:15:46", "2023-11-16 18:60:46", "2023-11-16 18:15:61",
                           "2023-02-29 18:15:46", "2023-13-01 18:15:46"}) {
    EXPECT_THAT(error_of("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n" + std::string(time) +
                                      ",1,2\n"),
                HasSubstr("a.csv:2: '" + std::string(time) + "' is no time"));
  }
  EXPECT_THAT(error_of("m.jsonl",
                       "{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 1, "
                       "\"hash_ids\": [-1]}\n"),
              HasSubstr("m.jsonl:1: a hash_id is below 0"));
  for (const char* nothing : {"", "TIMESTAMP,ContextTokens,GeneratedTokens\n"}) {
    EXPECT_THAT(error_of("a.csv", nothing), HasSubstr("a.csv' has no request – expected"));
  }
  EXPECT_THAT(error_of("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n0,1,2\n1e300,1,2\n"),
              HasSubstr("a request arrives after"));
  EXPECT_THAT(error_of("a.csv", "a,b\n"), HasSubstr("a.csv:1: its columns are"));
  EXPECT_THAT(error_of("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nnever,1,2\n"),
              HasSubstr("a.csv:2"));
  EXPECT_THAT(error_of("m.jsonl", "{}\n"), HasSubstr("m.jsonl:1"));
  EXPECT_THAT(error_of("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n1,0,0\n"),
              HasSubstr("has no request that is left"));
}

}  // namespace
}  // namespace tenon
