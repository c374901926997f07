#include "core/workload/request_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/workload/published_trace.h"
#include "core/workload/workload.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void expect_same(const WorkloadRequest& a, const WorkloadRequest& b) {
  EXPECT_EQ(a.prompt, b.prompt);
  EXPECT_EQ(drawn_prompt(a.drawn, 5000), drawn_prompt(b.drawn, 5000));
  EXPECT_EQ(a.max_tokens, b.max_tokens);
  EXPECT_EQ(a.arrival_ns, b.arrival_ns);
  EXPECT_EQ(a.tenant, b.tenant);
  EXPECT_EQ(a.answer.seed, b.answer.seed);
  EXPECT_EQ(a.answer.stop, b.answer.stop);
}

constexpr const char* kAllKinds = R"(format = 1
draw_seed = 9
[[request]]
count = 3
prompt = "Once"
stop = ["."]
vary_seed = true
seed = 5
max_tokens = { mean = 20, spread = 0.5 }
every = "10ms"
[[request]]
count = 4
turns = 3
think = "2s"
prefix = "a"
prefix_tokens = 7
prompt_tokens = { mean = 30, spread = 0.8 }
turn_tokens = 5
max_tokens = { mean = 9, spread = 0.3 }
rate = 2.5
tenant = 3
arrival = "1s"
[[request]]
blocks = [4, 9]
block_tokens = 16
last_block_tokens = 3
max_tokens = 2
)";

TEST(RequestList, drawn_words_are_those_of_the_workload) {
  const std::string text = "drawn_words = true\n" + std::string(kAllKinds);
  const auto list = parse_request_list(text, "w.toml");
  const auto workload = parse_workload(text, "w.toml");
  ASSERT_TRUE(list.ok()) << list.status().message();
  ASSERT_TRUE(workload.ok()) << workload.status().message();
  for (size_t i = 0; i < list->size(); ++i) {
    expect_same(list->at(i), workload->requests[i]);
    EXPECT_FALSE(list->at(i).prompt.empty()) << i;
    EXPECT_TRUE(list->at(i).drawn.empty()) << i;
  }
}

TEST(RequestList, a_request_is_what_the_workload_has_there) {
  const auto list = parse_request_list(kAllKinds, "w.toml");
  const auto workload = parse_workload(kAllKinds, "w.toml");
  ASSERT_TRUE(list.ok()) << list.status().message();
  ASSERT_TRUE(workload.ok()) << workload.status().message();
  ASSERT_EQ(list->size(), 16u);
  ASSERT_EQ(workload->requests.size(), 16u);
  // In any order.
  for (size_t i = list->size(); i > 0; --i) {
    expect_same(list->at(i - 1), workload->requests[i - 1]);
  }
  EXPECT_THAT(list->first_of_tables(), ElementsAre(0, 3, 15));
  // The conversation before it, its own words, and nothing of other conversations.
  EXPECT_EQ(list->at(5).drawn.size(), 6u);
  EXPECT_EQ(list->at(6).drawn.size(), 2u);
  EXPECT_EQ(list->at(5).drawn[1].stream, list->at(3).drawn[1].stream);
  EXPECT_EQ(list->at(2).answer.seed, 7u);
}

TEST(RequestList, what_is_longer_than_memory_is_listed_all_the_same) {
  const std::string text =
      "format = 1\n[[request]]\ncount = 1000\nprompt_tokens = 1000000\nmax_tokens = 1\n";
  const auto whole = parse_workload(text, "w.toml");
  ASSERT_FALSE(whole.ok());
  EXPECT_THAT(std::string(whole.status().message()), HasSubstr("w.toml:2:1: the requests take"));
  const auto list = parse_request_list(text, "w.toml");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->size(), 1000u);
  EXPECT_EQ(tokens_of(list->at(999).drawn), 1'000'000u);
}

TEST(RequestList, faults_are_those_of_a_workload) {
  for (const char* text : {"format = 1\n", "format = 1\n[[request]]\nprompt_tokens = 0\n",
                           "format = 1\n[[request]]\nprompt_tokens = 3\n", "format = ["}) {
    const auto list = parse_request_list(text, "w.toml");
    const auto workload = parse_workload(text, "w.toml");
    ASSERT_FALSE(list.ok());
    EXPECT_EQ(std::string(list.status().message()), std::string(workload.status().message()));
  }
}

// A trace of its own in lines again, and both as the workload that it makes.
void expect_one_trace(const CutTrace& made, TemporaryFolder& folder) {
  const auto workload = parse_workload(made.toml(), "made.toml");
  ASSERT_TRUE(workload.ok()) << workload.status().message();
  const RequestList list = made.list();
  const auto again =
      read_request_list(folder.write_file("again" + made.lines_ending(), made.lines()));
  ASSERT_TRUE(again.ok()) << again.status().message();
  ASSERT_EQ(list.size(), workload->requests.size());
  ASSERT_EQ(again->size(), list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same(list.at(i), workload->requests[i]);
    expect_same(again->at(i), workload->requests[i]);
  }
}

TEST(RequestList, a_trace_is_listed_as_the_workload_it_makes_and_may_be_written_in_lines_again) {
  TemporaryFolder folder;
  const std::string azure = folder.write_file(
      "azure.csv",
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
      "2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.2225670,0,55\n"
      "2023-11-16 18:15:51.3916800,5000,16\n2023-11-17 00:00:00.1234567,91,1\n");
  for (const TraceCut& cut : {TraceCut{}, TraceCut{.scale = 0.37, .length_scale = 0.21},
                              TraceCut{.limit = 2, .skip = 1, .context_tokens = 600}}) {
    const auto made = cut_trace(azure, cut);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(made->lines_ending(), ".csv");
    expect_one_trace(*made, folder);
  }
  const std::string mooncake = folder.write_file(
      "mooncake.jsonl",
      "{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 8}\n"
      "{\"timestamp\": 27482, \"input_length\": 1100, \"output_length\": 52, \"hash_ids\": [46, "
      "47, "
      "2353]}\n{\"timestamp\": 27483.5, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": "
      "[46, 9]}\n{\"timestamp\": 30001, \"input_length\": 17, \"output_length\": 6}\n");
  const auto made = cut_trace(mooncake, {.scale = 3});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->lines_ending(), ".jsonl");
  expect_one_trace(*made, folder);
}

}  // namespace
}  // namespace tenon
