#include "core/server/answer_reader.h"

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
                                               const std::string& answer) {
  const auto factory =
      make_answer_reader({ToolCallFormat::hermes, ReasoningFormat::think}, nullptr);
  const auto reader = factory({.call = call, .prompt_text = "hello", .prompt_ids = {}});
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

}  // namespace
}  // namespace tenon::server
