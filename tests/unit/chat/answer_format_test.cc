#include "core/chat/answer_format.h"

#include <gmock/gmock.h>

#include "tests/unit/chat/fixtures.h"

namespace tenon {
namespace {

using testing::HasSubstr;

struct Written {
  const char* source;
  AnswerFormat format;
};

TEST(AnswerFormat, is_read_off_the_markers_that_a_template_writes) {
  using Calls = ToolCallFormat;
  using Reasoning = ReasoningFormat;
  const Written cases[] = {
      {"{{ messages[0].content }}", {}},
      {"<tool_call>\n{'arguments'}</tool_call>", {Calls::hermes, Reasoning::none}},
      {"<tool_calls>[{\"arguments\"}]</tool_calls>", {Calls::hermes, Reasoning::none}},
      {"<think> <response>not the content's</response>", {Calls::none, Reasoning::think}},
      {"<tool_call> arguments </tool_call> <think>", {Calls::hermes, Reasoning::think}},
      {"<tool_call>\n<function=f>\n<parameter=a>", {Calls::qwen3_coder, Reasoning::none}},
      {"<tool_call>{{ name }}<arg_key></tool_call> arguments", {}},
      {"[TOOL_CALLS]", {Calls::mistral, Reasoning::none}},
      {"[THINK][TOOL_CALLS]name[ARGS]", {Calls::mistral, Reasoning::mistral}},
      {"<|python_tag|> {\"name\": \"parameters\":", {Calls::llama3_json, Reasoning::none}},
      {"{\"name\": function name, \"parameters\": dictionary", {Calls::llama3_json, {}}},
      {"<|start_of_role|> <|tool_call|> <think></think><response></response>",
       {Calls::granite, Reasoning::think_response}},
      {"functools[", {Calls::phi4_mini, Reasoning::none}},
      {"<|tool|>{{ tools }}<|/tool|>", {Calls::phi4_mini, Reasoning::none}},
      {"Action:\n```json\n[{\"tool_name\":", {Calls::command_r, Reasoning::none}},
      {"<|START_THINKING|> Action: <|START_ACTION|>[{\"tool_name\":",
       {Calls::command_r7b, Reasoning::command_r}},
      {"<｜tool▁call▁begin｜>function<｜tool▁sep｜>f ```json", {Calls::deepseek_v3, {}}},
      {"<｜tool▁call▁begin｜>f<｜tool▁sep｜>{} </think>", {Calls::deepseek_v31, Reasoning::think}},
      {"<TOOLCALL>[]</TOOLCALL><think>", {Calls::nemotron, Reasoning::think}},
      {"<start_of_turn>model <end_of_turn>", {Calls::gemma, Reasoning::none}},
      {"<|start|>assistant<|channel|>analysis<|message|>", {Calls::harmony, Reasoning::harmony}},
  };
  for (const Written& known : cases) {
    EXPECT_EQ(name_of(answer_format_of(known.source).calls), name_of(known.format.calls))
        << known.source;
    EXPECT_EQ(name_of(answer_format_of(known.source).reasoning), name_of(known.format.reasoning))
        << known.source;
  }
}

TEST(AnswerFormat, is_that_of_the_template_for_tools) {
  EXPECT_EQ(answer_format_of(chat_template("[TOOL_CALLS]")).calls, ToolCallFormat::mistral);
}

TEST(AnswerFormat, every_name_leads_back_to_its_format) {
  for (const ToolCallFormat format : tool_call_formats()) {
    EXPECT_EQ(must(tool_call_format_by_name(name_of(format))), format);
  }
  for (const ReasoningFormat format : reasoning_formats()) {
    EXPECT_EQ(must(reasoning_format_by_name(name_of(format))), format);
  }
}

TEST(AnswerFormat, an_unknown_name_is_refused_with_those_that_are_known) {
  const auto fault = tool_call_format_by_name("hermess");
  ASSERT_FALSE(fault.ok());
  EXPECT_THAT(std::string(fault.status().message()),
              HasSubstr("'hermess' is no format of tool calls"));
  EXPECT_THAT(std::string(fault.status().message()), HasSubstr("did you mean 'hermes'?"));
  EXPECT_FALSE(reasoning_format_by_name("").ok());
}

}  // namespace
}  // namespace tenon
