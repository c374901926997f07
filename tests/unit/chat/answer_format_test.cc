#include "core/chat/answers/answer_format.h"

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
  using Format = ToolCallFormat;
  using Reasoning = ReasoningFormat;
  const Written cases[] = {
      {"{{ messages[0].content }}", {}},
      {"<tool_call>\n{'arguments'}</tool_call>", {Format::hermes, Reasoning::none}},
      {"<tool_calls>[{\"arguments\"}]</tool_calls>", {Format::hermes, Reasoning::none}},
      {"<think> <response>not the content's</response>", {Format::none, Reasoning::think}},
      {"<tool_call> arguments </tool_call> <think>", {Format::hermes, Reasoning::think}},
      {"<tool_call>\n<function=f>\n<parameter=a>", {Format::qwen3_coder, Reasoning::none}},
      {"<tool_call>{{ name }}<arg_key>{{ k }}</arg_key><arg_value></tool_call> arguments <think>",
       {Format::glm, Reasoning::think}},
      {"<tool_call><function name=\"f\"></tool_call> arguments", {}},
      {"{% set m = ']<]minimax[>[' %}{{ m }}<tool_call>{{ m }}<invoke name=\"f\"> <mm:think> "
       "<think>",
       {Format::minimax_m3, Reasoning::minimax_m3}},
      {"{% set dsml = '｜DSML｜' %}<{{ dsml }}function_calls> <{{ dsml }}invoke name= </think>",
       {Format::deepseek_v32, Reasoning::think}},
      {"<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\">", {Format::deepseek_v4, {}}},
      {"{% set dsml = '｜DSML｜' %}<{{ dsml }} calls> <{{ dsml }} invoke",
       {Format::deepseek_v41, {}}},
      {"'<minimax:tool_call>' <invoke name=\"tool\"><parameter name=\"k\"> <think>",
       {Format::minimax_m2, Reasoning::think}},
      {"<seed:tool_call>\n<function=f>\n<parameter=a> <seed:think>",
       {Format::seed_oss, Reasoning::seed_oss}},
      {"<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>",
       {Format::kimi_k2, Reasoning::none}},
      {"<longcat_tool_call>{\"name\": {{ n }}, \"arguments\": {{ a }}} <longcat_think>",
       {Format::longcat, Reasoning::longcat}},
      {"<|tool_call>call:{{ name }}{}<tool_call|> <|channel>thought\n<channel|>",
       {Format::gemma4, Reasoning::gemma4}},
      {"<tool_calls>[{\"arguments\"}]</tool_calls> <think></think><answer></answer>",
       {Format::hermes, Reasoning::think_answer}},
      {"[TOOL_CALLS]", {Format::mistral, Reasoning::none}},
      {"[THINK][TOOL_CALLS]name[ARGS]", {Format::mistral, Reasoning::mistral}},
      {"<|python_tag|> {\"name\": \"parameters\":", {Format::llama3_json, Reasoning::none}},
      {"{\"name\": function name, \"parameters\": dictionary", {Format::llama3_json, {}}},
      {"<|start_of_role|> <|tool_call|> <think></think><response></response>",
       {Format::granite, Reasoning::think_response}},
      {"functools[", {Format::phi4_mini, Reasoning::none}},
      {"<|tool|>{{ tools }}<|/tool|>", {Format::phi4_mini, Reasoning::none}},
      {"Action:\n```json\n[{\"tool_name\":", {Format::command_r, Reasoning::none}},
      {"<|START_THINKING|> Action: <|START_ACTION|>[{\"tool_name\":",
       {Format::command_r7b, Reasoning::command_r}},
      {"<｜tool▁call▁begin｜>function<｜tool▁sep｜>f ```json", {Format::deepseek_v3, {}}},
      {"<｜tool▁call▁begin｜>f<｜tool▁sep｜>{} </think>", {Format::deepseek_v31, Reasoning::think}},
      {"<TOOLCALL>[]</TOOLCALL><think>", {Format::nemotron, Reasoning::think}},
      {"<start_of_turn>model <end_of_turn>", {Format::gemma, Reasoning::none}},
      {"<|start|>assistant<|channel|>analysis<|message|>", {Format::harmony, Reasoning::harmony}},
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
