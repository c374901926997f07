#include "core/workload/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/support/folders.h"

namespace tenon {
namespace {

std::string error_of(std::string_view text) {
  Result<Workload> read = parse_workload(text, "w.toml");
  EXPECT_FALSE(read.ok());
  return read.ok() ? "" : std::string(read.status().message());
}

TEST(Workload, takes_defaults_from_the_file_and_lets_requests_differ) {
  Result<Workload> read = parse_workload(R"(
format = 1
title = "two"
ignore_eos = false
[[request]]
prompt = "a"
max_tokens = 3
[[request]]
prompt = "b"
max_tokens = 4
ignore_eos = true
arrival = "1.5s"
samples = 2
seed = 9
temperature = 0.5
priority = -1
deadline = "250ms"
)",
                                         "w.toml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->title, "two");
  ASSERT_EQ(read->requests.size(), 2u);
  EXPECT_FALSE(read->requests[0].ignore_eos);
  EXPECT_FALSE(read->requests[0].answer.seed.has_value());
  const WorkloadRequest& second = read->requests[1];
  EXPECT_EQ(second.prompt, "b");
  EXPECT_EQ(second.max_tokens, 4u);
  EXPECT_TRUE(second.ignore_eos);
  EXPECT_EQ(second.arrival_ns, 1'500'000'000);
  EXPECT_EQ(second.answer.samples, 2u);
  EXPECT_EQ(second.answer.seed, 9u);
  EXPECT_EQ(second.answer.sampling[*find_sampling_key("temperature")], 0.5);
  EXPECT_EQ(second.priority, -1);
  EXPECT_EQ(second.deadline_ns, 250'000'000);
  EXPECT_EQ(read->requests[0].deadline_ns, 0);
}

TEST(Workload, takes_whatever_a_request_may_ask_for) {
  Result<Workload> read = parse_workload(R"(
format = 1
[[request]]
prompt = "a"
max_tokens = 3
min_p = 0.1
mirostat = 2
beams = 4
length_penalty = 0.5
early_stopping = "never"
block_length = 8
steps = 16
remasking = "random"
stop = ["x", "y"]
stop_tokens = [5, 6]
logit_bias = { 17 = -5.0, 3 = 1 }
prompt_logprobs = true
)",
                                         "w.toml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  const AnswerSettings& answer = read->requests[0].answer;
  EXPECT_EQ(answer.sampling[*find_sampling_key("min_p")], 0.1);
  EXPECT_EQ(answer.sampling[*find_sampling_key("mirostat")], 2.0);
  EXPECT_EQ(answer.sampling[*find_sampling_key("top_p")], std::nullopt);
  EXPECT_EQ(answer.beams, 4u);
  EXPECT_EQ(answer.length_penalty, 0.5);
  EXPECT_EQ(answer.early_stopping, "never");
  EXPECT_EQ(answer.block_length, 8u);
  EXPECT_EQ(answer.steps, 16u);
  EXPECT_EQ(answer.remasking, "random");
  EXPECT_EQ(answer.stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(answer.stop_tokens, (std::vector<TokenId>{5, 6}));
  ASSERT_EQ(answer.logit_bias.size(), 2u);
  EXPECT_EQ(answer.prompt_logprobs, true);
  EXPECT_EQ(error_of("format = 1\n[[request]]\nprompt = 'a'\nmax_tokens = 3\nmin_p = 2\n"
                     "stop_tokens = [-1]\nlogit_bias = { x = 1 }\n"),
            "w.toml:6:16: an id of stop_tokens is -1 – it must be a whole number from 0 to "
            "2147483647 – change it or leave it out\n"
            "w.toml:5:9: min_p is 2 – it must be a number from 0.0 to 1.0 – change it or leave it "
            "out\n"
            "w.toml:7:20: an id of logit_bias is \"x\" – it must be a whole number from 0 to "
            "2147483647 – change it or leave it out");
}

TEST(Answer, is_completed_by_who_is_asked_next) {
  AnswerSettings first, then;
  first.max_tokens = 3;
  then.max_tokens = 9;
  then.beams = 2;
  then.stop = {"x"};
  then.sampling[0] = 0.5;
  const AnswerSettings both = overlaid(first, then);
  EXPECT_EQ(both.max_tokens, 3u);
  EXPECT_EQ(both.beams, 2u);
  EXPECT_EQ(both.stop, then.stop);
  EXPECT_EQ(both.sampling[0], 0.5);
  EXPECT_EQ(both.samples, std::nullopt);
}

TEST(Workload, reports_all_errors_at_once_with_their_places) {
  EXPECT_EQ(error_of("format = 1\n[[request]]\nprompt = 7\nmax_tokens = 0\nmax_token = 3\n"),
            "w.toml:5:1: 'max_token' is no key of a workload; did you mean 'max_tokens'?\n"
            "w.toml:3:10: 'prompt' must be text in quotes\n"
            "w.toml:4:14: max_tokens is 0 – it must be a whole number from 1 to 16777216 – change "
            "it or leave it out");
}

TEST(Workload, needs_a_format_and_a_request) {
  EXPECT_EQ(error_of("title = \"x\"\n"),
            "w.toml:1:1: 'format' is missing – write format = 1\n"
            "w.toml:1:1: there are no requests – write a [[request]] for each");
  EXPECT_EQ(error_of("format = 2\n[[request]]\nprompt = \"a\"\nmax_tokens = 1\n"),
            "w.toml:1:10: format is 2 – it must be a whole number from 1 to 1 – change it or leave "
            "it out");
}

TEST(Workload, one_table_stands_for_as_many_requests_as_it_counts) {
  Result<Workload> read = parse_workload(R"(
format = 1
[[request]]
count = 3
prompt_tokens = 5
prefix = "manual"
prefix_tokens = 20
max_tokens = 7
arrival = "1s"
every = "250ms"
tenant = 4
seed = 10
vary_seed = true
)",
                                         "w.toml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->requests.size(), 3u);
  const WorkloadRequest& first = read->requests[0];
  const WorkloadRequest& last = read->requests[2];
  EXPECT_EQ(last.arrival_ns, 1'500'000'000);
  EXPECT_EQ(last.answer.seed, 12u);
  EXPECT_EQ(last.tenant, 4u);
  const auto of = [](const WorkloadRequest& r) { return drawn_prompt(r.drawn, 100); };
  const std::vector<int32_t> one = of(first), other = of(last);
  ASSERT_EQ(one.size(), 25u);
  EXPECT_TRUE(std::equal(one.begin(), one.begin() + 20, other.begin()));
  EXPECT_NE(one, other);
  EXPECT_THAT(other, testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(100))));
}

TEST(Workload, drawn_lengths_have_the_mean_and_the_bounds_of_the_file) {
  const char* text = R"(
format = 1
[[request]]
count = 4000
prompt_tokens = { mean = 160, spread = 0.8 }
max_tokens = { mean = 300, spread = 1.0, min = 10, max = 900 }
rate = 10
)";
  Result<Workload> read = parse_workload(text, "w.toml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  double prompt = 0;
  uint32_t shortest = UINT32_MAX, longest = 0;
  for (const WorkloadRequest& request : read->requests) {
    prompt += static_cast<double>(tokens_of(request.drawn));
    shortest = std::min(shortest, request.max_tokens);
    longest = std::max(longest, request.max_tokens);
  }
  EXPECT_NEAR(prompt / 4000, 160, 10);
  EXPECT_EQ(shortest, 10u);
  EXPECT_EQ(longest, 900u);
  EXPECT_EQ(read->requests[0].arrival_ns, 0);
  EXPECT_NEAR(static_cast<double>(read->requests[3999].arrival_ns) * 1e-9, 400, 30);
  Result<Workload> again = parse_workload(text, "other.toml");
  EXPECT_EQ(again->requests[7].max_tokens, read->requests[7].max_tokens);
}

TEST(Workload, lengths_and_prefixes_that_contradict_themselves_are_refused) {
  const auto fault = [](const std::string& lines) {
    const auto read = parse_workload("format = 1\n[[request]]\nmax_tokens = 3\n" + lines, "w.toml");
    return read.ok() ? std::string() : std::string(read.status().message());
  };
  EXPECT_EQ(fault("prompt_tokens = { mean = 10, min = 20 }\n"),
            "w.toml:4:17: of 'prompt_tokens' the 'mean' is 10.0, and none is below 20 or above "
            "16777216 – the mean must lie between 'min' and 'max'");
  EXPECT_NE(fault("prompt_tokens = { mean = 10, max = 5 }\n"), "");
  EXPECT_EQ(fault("prompt_tokens = { mean = 10, min = 10, max = 10 }\n"), "");
  EXPECT_EQ(fault("prompt_tokens = 5\nprefix = \"a\"\n"),
            "w.toml:5:10: 'prefix' names tokens that requests share – say how many: "
            "'prefix_tokens'");
  EXPECT_EQ(fault("prompt_tokens = 5\nprefix_tokens = 2\n"), "");
}

TEST(Workload, blocks_of_one_number_are_the_same_tokens) {
  Result<Workload> read = parse_workload(R"(
format = 1
[[request]]
blocks = [7, 8, 9]
block_tokens = 16
last_block_tokens = 5
max_tokens = 1
[[request]]
blocks = [7, 8]
block_tokens = 16
prompt_tokens = 3
max_tokens = 1
)",
                                         "w.toml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  const std::vector<int32_t> one = drawn_prompt(read->requests[0].drawn, 1000);
  const std::vector<int32_t> other = drawn_prompt(read->requests[1].drawn, 1000);
  ASSERT_EQ(one.size(), 37u);
  ASSERT_EQ(other.size(), 35u);
  EXPECT_TRUE(std::equal(one.begin(), one.begin() + 32, other.begin()));
  EXPECT_FALSE(std::equal(one.begin() + 32, one.begin() + 35, other.begin() + 32));
  EXPECT_FALSE(std::equal(one.begin(), one.begin() + 16, one.begin() + 16));
}

TEST(Workload, drawn_words_are_texts_that_begin_alike_where_ids_would) {
  const std::string requests = R"(
[[request]]
count = 2
prefix = "system"
prefix_tokens = 10
prompt_tokens = 20
max_tokens = 1
[[request]]
prompt = "Once"
max_tokens = 1
)";
  Result<Workload> read = parse_workload("format = 1\ndrawn_words = true" + requests, "w.toml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  const std::string& one = read->requests[0].prompt;
  const std::string& other = read->requests[1].prompt;
  EXPECT_TRUE(read->requests[0].drawn.empty());
  EXPECT_EQ(std::ranges::count(one, ' '), 29);
  EXPECT_EQ(std::ranges::count(other, ' '), 29);
  size_t equal_words = 0;
  for (size_t i = 0; i < std::min(one.size(), other.size()) && one[i] == other[i]; ++i) {
    equal_words += one[i] == ' ' ? 1 : 0;
  }
  EXPECT_GE(equal_words, 10u);
  EXPECT_LT(equal_words, 15u);
  EXPECT_EQ(read->requests[2].prompt, "Once");
  // Without it they are ids.
  read = parse_workload("format = 1" + requests, "w.toml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->requests[0].prompt, "");
  EXPECT_EQ(tokens_of(read->requests[0].drawn), 30u);
}

TEST(Workload, turns_of_a_conversation_begin_with_all_before_them) {
  Result<Workload> read = parse_workload(R"(
format = 1
[[request]]
count = 2
turns = 3
prefix = "system"
prefix_tokens = 10
prompt_tokens = 20
turn_tokens = 5
max_tokens = 7
think = "2s"
every = "1s"
)",
                                         "w.toml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->requests.size(), 6u);
  std::vector<std::vector<int32_t>> prompts;
  for (const WorkloadRequest& request : read->requests) {
    prompts.push_back(drawn_prompt(request.drawn, 1000));
  }
  const auto begins_with = [](const auto& longer, const auto& shorter) {
    return std::equal(shorter.begin(), shorter.end(), longer.begin());
  };
  EXPECT_EQ(prompts[0].size(), 30u);
  EXPECT_EQ(prompts[2].size(), 30u + 2 * (7 + 5));
  EXPECT_TRUE(begins_with(prompts[1], prompts[0]));
  EXPECT_TRUE(begins_with(prompts[2], prompts[1]));
  EXPECT_FALSE(begins_with(prompts[4], prompts[0]));
  EXPECT_EQ(read->requests[2].arrival_ns, 4'000'000'000);
  EXPECT_EQ(read->requests[5].arrival_ns, 5'000'000'000);
}

TEST(Workload, burstiness_changes_the_spread_of_arrivals_and_not_their_rate) {
  for (const double burstiness : {0.25, 1.0, 4.0}) {
    Result<Workload> read = parse_workload(
        "format = 1\n[[request]]\ncount = 8000\nprompt_tokens = 1\nmax_tokens = 1\nrate = 50\n"
        "burstiness = " +
            std::to_string(burstiness) + "\n",
        "w.toml");
    ASSERT_TRUE(read.ok()) << read.status().message();
    double sum = 0, squares = 0;
    for (size_t i = 1; i < read->requests.size(); ++i) {
      const double gap =
          static_cast<double>(read->requests[i].arrival_ns - read->requests[i - 1].arrival_ns) *
          1e-9;
      sum += gap;
      squares += gap * gap;
    }
    const double mean = sum / 7999;
    EXPECT_NEAR(mean, 0.02, 0.002);
    EXPECT_NEAR((squares / 7999 - mean * mean) / (mean * mean), 1 / burstiness, 0.25 / burstiness);
  }
}

TEST(Workload, says_what_does_not_belong_together) {
  const std::string drawn = "format = 1\n[[request]]\nmax_tokens = 1\nprompt_tokens = 1\n";
  EXPECT_THAT(error_of(drawn + "burstiness = 2.0\n"), testing::HasSubstr("say their 'rate'"));
  EXPECT_THAT(error_of(drawn + "think = \"1s\"\n"), testing::HasSubstr("are of further turns"));
  EXPECT_THAT(error_of(drawn + "block_tokens = 16\n"), testing::HasSubstr("name the 'blocks'"));
  EXPECT_THAT(error_of(drawn + "blocks = [1]\n"), testing::HasSubstr("needs 'block_tokens'"));
  EXPECT_THAT(error_of(drawn + "blocks = [1, -2]\nblock_tokens = 4\n"),
              testing::HasSubstr("must be a list of whole numbers"));
  EXPECT_THAT(error_of("format = 1\n[[request]]\nmax_tokens = 1\nprompt = \"a\"\nturns = 2\n"),
              testing::HasSubstr("'turns' belongs to drawn prompts"));
}

TEST(Workload, a_prompt_is_text_or_drawn) {
  EXPECT_EQ(error_of("format = 1\n[[request]]\nmax_tokens = 1\n"),
            "w.toml:2:1: a request has no 'prompt', nor 'prompt_tokens' to be drawn");
  EXPECT_EQ(error_of("format = 1\n[[request]]\nprompt = \"a\"\nprompt_tokens = 3\n"
                     "max_tokens = 1\nevery = \"1s\"\nrate = 2.0\n"),
            "w.toml:2:1: a request has a 'prompt' and 'prompt_tokens' – keep one\n"
            "w.toml:2:1: a request has 'every' and 'rate' – keep one");
  EXPECT_EQ(error_of("format = 1\n[[request]]\nprompt_tokens = { mean = 3, sigma = 1 }\n"
                     "max_tokens = { spread = 1 }\n"),
            "w.toml:3:29: 'sigma' is no key of a workload\n"
            "w.toml:4:14: 'max_tokens' has no 'mean'");
}

std::string with(const NumberSpec& spec, const std::string& value) {
  const std::string name(spec.name);
  if (name == "draw_seed") {
    return "format = 1\ndraw_seed = " + value +
           "\n[[request]]\nprompt_tokens = 1\nmax_tokens = 1\n";
  }
  if (name == "prompt_tokens") {
    return "format = 1\n[[request]]\nmax_tokens = 1\nprompt_tokens = " + value + "\n";
  }
  std::string length = "{ mean = 5 }", line = name + " = " + value + "\n";
  // What some belong to.
  if (name == "burstiness") line += "rate = 1.0\n";
  if (name.ends_with("block_tokens")) line += "blocks = [1]\n";
  if (name == "last_block_tokens") line += "block_tokens = 16777216\n";
  if (name == "turn_tokens") line += "turns = 2\n";
  for (std::string_view part : {"mean", "spread", "min", "max"}) {
    if (part != name) continue;
    // Within the bounds, whatever they are.
    const std::string mean = part == "min" ? "16777216" : part == "max" ? "1" : "5";
    length = "{ " + (part == "mean" ? "" : "mean = " + mean + ", ") + name + " = " + value + " }";
    line = "";
  }
  return "format = 1\n[[request]]\nmax_tokens = 1\nprompt_tokens = " + length + "\n" + line;
}

TEST(Workload, its_numbers_are_taken_within_their_range_alone) {
  for (const NumberSpec& spec : workload_numbers()) {
    const bool arrives_late = spec.name == "count";
    const std::string least = spec.whole ? std::to_string(spec.least) : std::to_string(spec.min);
    const std::string most = spec.whole ? std::to_string(spec.most) : std::to_string(spec.max);
    std::vector<std::string> bad = {"true", "'x'", "nan", "inf", "-9000000000"};
    if (spec.whole) bad.emplace_back("1.0");
    if (spec.whole && spec.most < INT64_MAX) bad.push_back(std::to_string(spec.most + 1));
    if (spec.whole) bad.push_back(std::to_string(spec.least - 1));
    if (!spec.whole) bad.push_back(std::to_string(spec.max + 1));
    for (const std::string& value : {least, most}) {
      if (arrives_late && value == most) continue;  // a million requests take their time
      EXPECT_TRUE(parse_workload(with(spec, value), "w.toml").ok()) << with(spec, value);
    }
    for (const std::string& value : bad) {
      EXPECT_THAT(error_of(with(spec, value)), testing::HasSubstr(std::string(spec.name) + " is "))
          << value;
    }
  }
}

TEST(Workload, its_page_has_the_ranges_of_its_whole_numbers) {
  std::ifstream file(source_folder() + "/docs/formats/workload-toml.md");
  std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const NumberSpec& spec : workload_numbers()) {
    if (!spec.whole) continue;
    const size_t at = page.find("`" + std::string(spec.name) + "`");
    ASSERT_NE(at, page.npos) << spec.name;
    const std::string minus = spec.least < 0 ? "−" : "";
    const std::string digits = std::to_string(spec.least).substr(spec.least < 0 ? 1 : 0);
    EXPECT_NE(page.find(minus + digits + " … " + std::to_string(spec.most), at), page.npos)
        << spec.name;
  }
}

TEST(Workload, counts_neither_seeds_nor_arrivals_beyond_what_fits) {
  const std::string start = "format = 1\n[[request]]\nprompt = 'a'\nmax_tokens = 1\ncount = 9\n";
  EXPECT_THAT(error_of(start + "seed = 9223372036854775807\nvary_seed = true\n"),
              testing::HasSubstr("9 requests count it beyond 9223372036854775807"));
  EXPECT_THAT(error_of(start + "every = '1000000h'\n"),
              testing::HasSubstr("seconds – that must be 1e+08 at most"));
}

TEST(Workload, is_not_written_out_beyond_all_memory) {
  EXPECT_THAT(error_of("format = 1\n[[request]]\nmax_tokens = 1\ncount = 1000000\n"
                       "prompt_tokens = 16777216\n"),
              testing::HasSubstr("w.toml:2:1: the requests take more than 1.0 GiB together"));
}

TEST(Workload, refuses_empty_entries_and_unknown_words) {
  EXPECT_THAT(error_of("format = 1\n[[request]]\nprompt = 'a'\nmax_tokens = 1\norder = ','\n"
                       "stop = ['']\nearly_stopping = 'maybe'\n"),
              testing::AllOf(testing::HasSubstr("order has an empty entry"),
                             testing::HasSubstr("stop has an empty text"),
                             testing::HasSubstr("early_stopping is \"maybe\"")));
}

TEST(Workload, survives_what_is_no_toml) {
  EXPECT_THAT(error_of("[[request]\n"), testing::StartsWith("w.toml:1:"));
  std::string deep = "a";
  for (int i = 0; i < 200000; ++i) deep += ".a";
  EXPECT_THAT(error_of(deep + " = 1\n"), testing::StartsWith("w.toml:1:1: more than 32 points"));
  EXPECT_THAT(error_of("format = 1\nrequest = 3\n"), testing::HasSubstr("there are no requests"));
  EXPECT_THAT(error_of("format = 1\nrequest = [3]\n"),
              testing::HasSubstr("w.toml:2:12: a request must be a [[request]] table"));
}

TEST(Workload, the_bundled_one_is_uneven) {
  Result<Workload> read = read_workload(source_folder() + "/configs/workloads/uneven32.toml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->requests.size(), 32u);
  std::vector<uint32_t> lengths;
  for (const WorkloadRequest& request : read->requests) lengths.push_back(request.max_tokens);
  std::sort(lengths.begin(), lengths.end());
  EXPECT_EQ(lengths.front(), 16u);
  EXPECT_EQ(lengths.back(), 512u);
  EXPECT_LT(lengths[20], 100u);
}

}  // namespace
}  // namespace tenon
