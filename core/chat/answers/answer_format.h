// How a model writes its answers: where reasoning stands in them, and how tools are called.
//
// Both are properties of what the model was trained on, and are read off its chat template (the
// markers that it writes), or named by the user. They are never guessed from an answer.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

class ChatTemplate;

enum class ToolCallFormat : uint8_t {
  none,         // calls are not looked for
  hermes,       // <tool_call>{"name": …, "arguments": …}</tool_call>
  longcat,      // the same in <longcat_tool_call>
  qwen3_coder,  // <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>
  seed_oss,     // the same in <seed:tool_call>
  minimax_m2,   // <minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter>
                // </invoke></minimax:tool_call>
  minimax_m3,   // the same with ]<]minimax[>[ before each tag, and parameters as elements:
                // <tool_call><invoke name="NAME"><KEY>VALUE</KEY></invoke></tool_call>
  glm,          // <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>
  llama3_json,  // {"name": …, "parameters": …} as the whole answer, perhaps after <|python_tag|>
  pythonic,     // [name(key=value, …), …] as the whole answer
  mistral,      // [TOOL_CALLS][{"name": …}] and [TOOL_CALLS]name[ARGS]{…}
  granite,      // <|tool_call|>[{"name": …}]
  phi4_mini,    // functools[{…}], <|tool_call|>[{…}]<|/tool_call|>
  command_r,    // Action: ```json [{"tool_name": …, "parameters": …}]```
  command_r7b,   // <|START_ACTION|>[{"tool_name": …, "parameters": …}]<|END_ACTION|>
  deepseek_v3,   // <｜tool▁call▁begin｜>function<｜tool▁sep｜>name ```json {…}
                 // ```<｜tool▁call▁end｜>
  deepseek_v31,  // <｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>
  deepseek_v32,  // <｜DSML｜function_calls><｜DSML｜invoke name="NAME"><｜DSML｜parameter
                 // name="KEY"
                 // string="true">VALUE</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>
  deepseek_v4,   // the same in <｜DSML｜tool_calls>
  deepseek_v41,  // the same in <｜DSML｜ calls>, with a space before the name of every tag
  kimi_k2,       // <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}
                 // <|tool_call_end|>
  nemotron,      // <TOOLCALL>[{"name": …, "arguments": …}]</TOOLCALL>
  olmo3,         // <function_calls>name(key=value)</function_calls>, one call a line
  gemma,         // ```tool_code or ```json, at the beginning
  gemma4,        // <|tool_call>call:name{key:<|"|>value<|"|>}<tool_call|>
  harmony,       // <|channel|>commentary to=functions.name<|message|>{…}<|call|>
  json,          // a list of {"name": …, "arguments": …} as the whole answer
};

enum class ReasoningFormat : uint8_t {
  none,
  think,           // <think>…</think>
  think_response,  // the same, and the content in <response>…</response>
  think_answer,    // the same, and the content in <answer>…</answer>
  seed_oss,        // <seed:think>…</seed:think>
  minimax_m3,      // <mm:think>…</mm:think>
  longcat,         // <longcat_think>…</longcat_think>
  mistral,         // [THINK]…[/THINK]
  command_r,       // <|START_THINKING|>…<|END_THINKING|>
  granite,         // "Here is my thought process:" … "Here is my response:"
  gemma4,          // <|channel>thought … <channel|>
  harmony,         // the analysis channel
};

struct AnswerFormat {
  ToolCallFormat calls = ToolCallFormat::none;
  ReasoningFormat reasoning = ReasoningFormat::none;

  bool operator==(const AnswerFormat&) const = default;
};

// By the text of a template.
AnswerFormat answer_format_of(std::string_view template_source);
// By the template that is used for conversations with tools, where there are several.
AnswerFormat answer_format_of(const ChatTemplate& chat_template);

std::string_view name_of(ToolCallFormat format);   // "qwen3_coder"
std::string_view name_of(ReasoningFormat format);  // "think"
std::span<const ToolCallFormat> tool_call_formats();
std::span<const ReasoningFormat> reasoning_formats();
// Errors: invalid_argument, for a name that is none; it lists those that are.
Result<ToolCallFormat> tool_call_format_by_name(std::string_view name);
Result<ReasoningFormat> reasoning_format_by_name(std::string_view name);

}  // namespace tenon
