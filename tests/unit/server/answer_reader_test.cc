#include "core/server/generation/answer_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tenon::server {
namespace {

using api::AnswerPart;
using Kind = AnswerPart::Kind;

const std::string kTools =
    R"([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}])";
const std::string kTwoCalls =
    "<think>where?</think>Let me look.\n"
    "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}</tool_call>\n"
    "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}</tool_call>";

api::GenerationCall call_with(std::optional<api::ToolUse> tools) {
  api::GenerationCall call;
  if (tools) call.chat.tools = kTools;
  call.tools = std::move(tools);
  return call;
}

// Parts of the answer, which comes a byte at a time; those of one kind are put together.
std::vector<std::pair<Kind, std::string>> read(const api::GenerationCall& call,
                                               const std::string& answer,
                                               const std::string& prompt = "hello") {
  const auto factory =
      make_answer_reader({ToolCallFormat::hermes, ReasoningFormat::think}, nullptr);
  const auto reader = factory({.call = call, .prompt_text = prompt, .prompt_ids = {}});
  std::vector<AnswerPart> parts;
  for (const char c : answer) reader->push({&c, 1}, {}, parts);
  reader->finish(parts);
  std::vector<std::pair<Kind, std::string>> joined;
  for (const AnswerPart& part : parts) {
    const bool goes_on =
        !joined.empty() && joined.back().first == part.kind && part.kind != Kind::tool_call;
    if (!goes_on) joined.emplace_back(part.kind, "");
    joined.back().second += part.text;
  }
  return joined;
}

using Parts = std::vector<std::pair<Kind, std::string>>;

TEST(AnswerReader, splits_reasoning_content_and_calls) {
  EXPECT_EQ(read(call_with(api::ToolUse()), kTwoCalls),
            (Parts{{Kind::reasoning, "where?"},
                   {Kind::content, "Let me look."},
                   {Kind::tool_call, "weather"},
                   {Kind::arguments, R"({"city": "Oslo"})"},
                   {Kind::tool_call, "weather"},
                   {Kind::arguments, R"({"city": "Rome"})"}}));
}

TEST(AnswerReader, delivers_the_first_call_alone_where_one_at_a_time_is_wanted) {
  api::ToolUse one_at_a_time;
  one_at_a_time.parallel = false;
  EXPECT_EQ(read(call_with(one_at_a_time), kTwoCalls),
            (Parts{{Kind::reasoning, "where?"},
                   {Kind::content, "Let me look."},
                   {Kind::tool_call, "weather"},
                   {Kind::arguments, R"({"city": "Oslo"})"}}));
}

TEST(AnswerReader, leaves_calls_in_the_content_where_no_tools_are_offered) {
  const std::string calls = kTwoCalls.substr(kTwoCalls.find("Let"));
  EXPECT_EQ(read(call_with({}), kTwoCalls),
            (Parts{{Kind::reasoning, "where?"}, {Kind::content, calls}}));
  api::ToolUse none;
  none.choice = "none";
  EXPECT_EQ(read(call_with(none), kTwoCalls),
            (Parts{{Kind::reasoning, "where?"}, {Kind::content, calls}}));
}

TEST(AnswerReader, delivers_what_is_no_call_after_all_as_content) {
  const std::string half = "<tool_call>{\"name\": \"weather\", \"argum";
  EXPECT_EQ(read(call_with(api::ToolUse()), half), (Parts{{Kind::content, half}}));
}

TEST(AnswerReader, reads_a_call_that_was_forced_as_a_list_whatever_the_family_writes) {
  api::ToolUse forced;
  forced.choice = "required";
  api::GenerationCall call = call_with(forced);
  call.form = api::AnswerForm{.form = "json_schema", .definition = {}};
  EXPECT_EQ(read(call, R"([{"name": "weather", "arguments": {"city": "Oslo"}},
                          {"name": "weather", "arguments": {}}])"),
            (Parts{{Kind::tool_call, "weather"},
                   {Kind::arguments, R"({"city": "Oslo"})"},
                   {Kind::tool_call, "weather"},
                   {Kind::arguments, "{}"}}));
}

TEST(AnswerReader, delivers_a_call_that_was_forced_as_it_comes_and_cut_where_the_answer_is) {
  api::ToolUse forced;
  forced.choice = "function";
  const api::GenerationCall call = call_with(forced);
  const auto factory =
      make_answer_reader({ToolCallFormat::hermes, ReasoningFormat::think}, nullptr);
  const auto reader = factory({.call = call, .prompt_text = "hello", .prompt_ids = {}});
  std::vector<AnswerPart> parts;
  reader->push(R"([{"name": "weather", "arguments": {"city": "Os)", {}, parts);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].kind, Kind::tool_call);
  EXPECT_EQ(parts[1].text, R"({"city": "Os)");
  reader->finish(parts);
  EXPECT_EQ(parts.size(), 2u);
  EXPECT_EQ(read(call, R"([{"name": "weather", "arguments": {"city": "Oslo"}})"),
            (Parts{{Kind::tool_call, "weather"}, {Kind::arguments, R"({"city": "Oslo"})"}}));
}

TEST(AnswerReader, streams_a_call_as_it_comes) {
  api::GenerationCall call = call_with(api::ToolUse());
  call.stream = true;
  const auto factory =
      make_answer_reader({ToolCallFormat::hermes, ReasoningFormat::think}, nullptr);
  const auto reader = factory({.call = call, .prompt_text = "hello", .prompt_ids = {}});
  std::vector<AnswerPart> parts;
  reader->push(R"(<tool_call>{"name": "weather", "arguments": {"city": "Os)", {}, parts);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].kind, Kind::tool_call);
  EXPECT_EQ(parts[0].text, "weather");
  EXPECT_EQ(parts[1].text, R"({"city": "Os)");
  parts.clear();
  reader->push("lo\"", {}, parts);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].text, "lo\"");
  // It is the same call in the end.
  api::GenerationCall whole = call_with(api::ToolUse());
  EXPECT_EQ(read(call, kTwoCalls), read(whole, kTwoCalls));
}

TEST(AnswerReader, streams_what_there_is_of_a_call_that_breaks_off) {
  api::GenerationCall call = call_with(api::ToolUse());
  call.stream = true;
  const Parts half = {{Kind::tool_call, "weather"}, {Kind::arguments, R"({"city": "Os)"}};
  EXPECT_EQ(read(call, R"(<tool_call>{"name": "weather", "arguments": {"city": "Os)"), half);
  // Before its name is there, it may be none.
  const std::string name = "<tool_call>{\"name\": \"weather\", \"argum";
  EXPECT_EQ(read(call, name), (Parts{{Kind::content, name}}));
}

TEST(AnswerReader, takes_an_answer_that_was_held_to_a_form_as_it_is) {
  api::GenerationCall call = call_with(api::ToolUse());
  call.form = api::AnswerForm{.form = "json_object", .definition = {}};
  const std::string answer = R"({"a": "<tool_call>{}</tool_call>"})";
  EXPECT_EQ(read(call, answer), (Parts{{Kind::content, answer}}));
  // Where the prompt has closed the reasoning too.
  EXPECT_EQ(read(call, answer, "<think>\n\n</think>\n\n"), (Parts{{Kind::content, answer}}));
}

TEST(AnswerReader, reads_what_was_thought_in_front_of_a_form) {
  api::GenerationCall call = call_with(api::ToolUse());
  call.form = api::AnswerForm{.form = "json_object", .definition = {}};
  const std::string answer = R"({"a": "<think></think><tool_call>{}</tool_call>"})";
  const Parts parts = {{Kind::reasoning, "hm {"}, {Kind::content, answer}};
  EXPECT_EQ(read(call, "hm {</think>\n\n" + answer, "<think>\n"), parts);
  EXPECT_EQ(read(call, "<think>hm {</think>" + answer), parts);
}

TEST(AnswerReader, reads_what_was_thought_in_front_of_a_call_that_was_forced) {
  api::ToolUse forced;
  forced.choice = "required";
  const api::GenerationCall call = call_with(forced);
  EXPECT_EQ(
      read(call, R"([hm</think>[{"name": "weather", "arguments": {}}])", "<think>"),
      (Parts{{Kind::reasoning, "[hm"}, {Kind::tool_call, "weather"}, {Kind::arguments, "{}"}}));
}

}  // namespace
}  // namespace tenon::server
