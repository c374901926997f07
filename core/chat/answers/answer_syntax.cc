#include "core/chat/answers/answer_syntax.h"

namespace tenon::chat {
namespace {

constexpr std::string_view kCallBegin = "<｜tool▁call▁begin｜>";
constexpr std::string_view kCallEnd = "<｜tool▁call▁end｜>";
constexpr std::string_view kCallsBegin = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kCallsEnd = "<｜tool▁calls▁end｜>";
constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
constexpr std::string_view kArguments = "[ARGS]";
constexpr std::string_view kCallId = "[CALL_ID]";
constexpr std::string_view kToolCode = "```tool_code";

}  // namespace

CallSyntax call_syntax(ToolCallFormat format) {
  CallSyntax syntax;
  switch (format) {
    case ToolCallFormat::none:
    case ToolCallFormat::harmony:
      break;
    case ToolCallFormat::hermes:
      syntax.opens = {"<tool_call>", "<tool_calls>"};
      syntax.closes = {"</tool_call>", "</tool_calls>"};
      syntax.repeats = true;
      break;
    case ToolCallFormat::qwen3_coder:
      syntax.opens = {"<tool_call>", "<function="};
      syntax.closes = {"</tool_call>"};
      break;
    case ToolCallFormat::llama3_json:
      syntax.opens = {"<|python_tag|>"};
      syntax.unmarked = syntax.repeats = syntax.separated = true;
      break;
    case ToolCallFormat::pythonic:
      syntax.opens = {"<|python_start|>", "<|tool_call_start|>"};
      syntax.closes = {"<|python_end|>", "<|tool_call_end|>"};
      syntax.unmarked = true;
      break;
    case ToolCallFormat::mistral:
      syntax.opens = {"[TOOL_CALLS]"};
      syntax.within = {kArguments, kCallId};
      break;
    case ToolCallFormat::granite:
      syntax.opens = {"<|tool_call|>", "<tool_call>"};
      syntax.closes = {"</tool_call>"};
      break;
    case ToolCallFormat::phi4_mini:
      syntax.opens = {"functools", "<|tool_call|>"};
      syntax.closes = {"<|/tool_call|>"};
      break;
    case ToolCallFormat::command_r:
      syntax.opens = {"Action:"};
      syntax.closes = {"```"};
      break;
    case ToolCallFormat::command_r7b:
      syntax.opens = {"<|START_ACTION|>"};
      syntax.closes = {"<|END_ACTION|>"};
      break;
    case ToolCallFormat::deepseek_v3:
    case ToolCallFormat::deepseek_v31:
      syntax.preludes = {kCallsBegin};
      syntax.opens = {kCallBegin};
      syntax.within = {kSeparator};
      syntax.closes = {"```", kCallEnd, kCallsEnd};
      break;
    case ToolCallFormat::nemotron:
      syntax.opens = {"<TOOLCALL>"};
      syntax.closes = {"</TOOLCALL>"};
      break;
    case ToolCallFormat::olmo3:
      syntax.opens = {"<function_calls>"};
      syntax.closes = {"</function_calls>"};
      break;
    case ToolCallFormat::gemma:
      syntax.opens = {kToolCode, "```json"};
      syntax.closes = {"```"};
      syntax.unmarked = true;
      break;
    case ToolCallFormat::json:
      syntax.unmarked = true;
      break;
  }
  return syntax;
}

ReasoningSyntax reasoning_syntax(ReasoningFormat format) {
  switch (format) {
    case ReasoningFormat::none:
    case ReasoningFormat::harmony:
      return {};
    case ReasoningFormat::think:
      return {{"<think>"}, {"</think>"}, {}};
    case ReasoningFormat::think_response:
      return {{"<think>"}, {"</think>"}, {"<response>", "</response>"}};
    case ReasoningFormat::mistral:
      return {{"[THINK]"}, {"[/THINK]"}, {}};
    case ReasoningFormat::command_r:
      return {{"<|START_THINKING|>"},
              {"<|END_THINKING|>"},
              {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}};
    case ReasoningFormat::granite:
      return {{"Here is my thought process:", "Here's my thought process:"},
              {"Here is my response:", "Here's my response:"},
              {}};
  }
  return {};
}

MarkerTexts harmony_markers() {
  return {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
          "<|end|>",   "<|call|>",    "<|return|>"};
}

std::unique_ptr<CallReader> read_call(ToolCallFormat format, std::string_view open,
                                      const Tools& tools, const MarkerTexts& texts) {
  NamedCallStyle named;
  named.texts = texts;
  switch (format) {
    case ToolCallFormat::qwen3_coder:
      return read_tagged_call(tools, open == "<function=");
    case ToolCallFormat::mistral:
      named.name_end = kArguments;
      named.id_begin = kCallId;
      named.or_json = true;
      return read_named_call(named);
    case ToolCallFormat::deepseek_v3:
      named.type_end = kSeparator;
      named.fenced = true;
      return read_named_call(named);
    case ToolCallFormat::deepseek_v31:
      named.name_end = kSeparator;
      return read_named_call(named);
    case ToolCallFormat::pythonic:
      return read_python_calls(
          {.in_brackets = true, .may_print = false, .known = open.empty() ? &tools : nullptr});
    case ToolCallFormat::olmo3:
      return read_python_calls({});
    case ToolCallFormat::gemma:
      if (open.empty()) return read_unmarked_call(tools, true);
      if (open != kToolCode) return read_json_call({.fenced = false, .known = &tools});
      return read_python_calls({.in_brackets = false, .may_print = true, .known = &tools});
    case ToolCallFormat::llama3_json:
    case ToolCallFormat::json:
      return read_json_call({.fenced = false, .known = open.empty() ? &tools : nullptr});
    default:
      return read_json_call({.fenced = format == ToolCallFormat::command_r, .known = nullptr});
  }
}

}  // namespace tenon::chat
