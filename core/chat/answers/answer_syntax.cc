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
constexpr std::string_view kMinimaxMark = "]<]minimax[>[";
constexpr std::string_view kKimiArguments = "<|tool_call_argument_begin|>";

constexpr TagWords kQwenTags = {.call_open = "<tool_call>",
                                .call_close = "</tool_call>",
                                .function_open = "<function=",
                                .name_end = ">",
                                .function_close = "</function>",
                                .parameter_open = "<parameter=",
                                .key_end = {">", ""},
                                .parameter_close = "</parameter>",
                                .in_lines = true};
constexpr TagWords kSeedTags = [] {
  TagWords words = kQwenTags;
  words.call_open = "<seed:tool_call>";
  words.call_close = "</seed:tool_call>";
  words.lines_in_pairs = true;
  return words;
}();
constexpr TagWords kMinimaxTags = {.call_open = "<minimax:tool_call>",
                                   .call_close = "</minimax:tool_call>",
                                   .function_open = "<invoke name=\"",
                                   .name_end = "\">",
                                   .function_close = "</invoke>",
                                   .parameter_open = "<parameter name=\"",
                                   .key_end = {"\">", ""},
                                   .parameter_close = "</parameter>"};
constexpr TagWords kDeepseekV32Tags = {.call_open = "<｜DSML｜function_calls>",
                                       .call_close = "</｜DSML｜function_calls>",
                                       .function_open = "<｜DSML｜invoke name=\"",
                                       .name_end = "\">",
                                       .function_close = "</｜DSML｜invoke>",
                                       .parameter_open = "<｜DSML｜parameter name=\"",
                                       .key_end = {"\"", ">"},
                                       .parameter_close = "</｜DSML｜parameter>",
                                       .has_attributes = true};
constexpr TagWords kDeepseekV4Tags = [] {
  TagWords words = kDeepseekV32Tags;
  words.call_open = "<｜DSML｜tool_calls>";
  words.call_close = "</｜DSML｜tool_calls>";
  return words;
}();
constexpr TagWords kDeepseekV41Tags = [] {
  TagWords words = kDeepseekV32Tags;
  words.call_open = "<｜DSML｜ calls>";
  words.call_close = "</｜DSML｜ calls>";
  words.function_open = "<｜DSML｜ invoke name=\"";
  words.function_close = "</｜DSML｜ invoke>";
  words.parameter_open = "<｜DSML｜ parameter name=\"";
  words.parameter_close = "</｜DSML｜ parameter>";
  return words;
}();
constexpr TagWords kGlmTags = {.call_open = "",
                               .call_close = "",
                               .function_open = "<tool_call>",
                               .name_end = "",
                               .function_close = "</tool_call>",
                               .parameter_open = "<arg_key>",
                               .key_end = {"</arg_key>", "<arg_value>"},
                               .parameter_close = "</arg_value>"};

// Null: calls of the format have no tags.
const TagWords* tag_words(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::qwen3_coder:
      return &kQwenTags;
    case ToolCallFormat::seed_oss:
      return &kSeedTags;
    case ToolCallFormat::minimax_m2:
      return &kMinimaxTags;
    case ToolCallFormat::deepseek_v32:
      return &kDeepseekV32Tags;
    case ToolCallFormat::deepseek_v4:
      return &kDeepseekV4Tags;
    case ToolCallFormat::deepseek_v41:
      return &kDeepseekV41Tags;
    case ToolCallFormat::glm:
      return &kGlmTags;
    default:
      return nullptr;
  }
}

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
    case ToolCallFormat::longcat:
      syntax.opens = {"<longcat_tool_call>"};
      syntax.closes = {"</longcat_tool_call>"};
      syntax.repeats = true;
      break;
    case ToolCallFormat::qwen3_coder:
    case ToolCallFormat::seed_oss:
    case ToolCallFormat::minimax_m2:
    case ToolCallFormat::deepseek_v32:
    case ToolCallFormat::deepseek_v4:
    case ToolCallFormat::deepseek_v41:
    case ToolCallFormat::glm: {
      const TagWords& words = *tag_words(format);
      syntax.opens = {words.function_open};
      if (!words.call_open.empty()) {
        syntax.opens.push_back(words.call_open);
        syntax.closes = {words.call_close};
      } else {
        syntax.within = {words.parameter_open, words.key_end[0], words.key_end[1],
                         words.parameter_close, words.function_close};
      }
      break;
    }
    case ToolCallFormat::minimax_m3:
      syntax.opens = {kMinimaxMark};
      syntax.within = {kMinimaxMark, "<tool_call>", "</tool_call>"};
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
    case ToolCallFormat::kimi_k2:
      syntax.preludes = {"<|tool_calls_section_begin|>"};
      syntax.opens = {"<|tool_call_begin|>"};
      syntax.within = {kKimiArguments};
      syntax.closes = {"<|tool_call_end|>", "<|tool_calls_section_end|>"};
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
    case ToolCallFormat::gemma4:
      syntax.opens = {"<|tool_call>"};
      syntax.within = {kGemmaQuote};
      syntax.closes = {"<tool_call|>"};
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
    case ReasoningFormat::think_answer:
      return {{"<think>"}, {"</think>"}, {"<answer>", "</answer>"}};
    case ReasoningFormat::seed_oss:
      return {{"<seed:think>"}, {"</seed:think>"}, {}};
    case ReasoningFormat::minimax_m3:
      return {{"<mm:think>"}, {"</mm:think>"}, {}};
    case ReasoningFormat::longcat:
      return {{"<longcat_think>"}, {"</longcat_think>"}, {}};
    case ReasoningFormat::gemma4:
      return {{"<|channel>"}, {"<channel|>"}, {}, "thought"};
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
  if (const TagWords* words = tag_words(format)) {
    return read_tagged_call(*words, tools, open == words->function_open);
  }
  NamedCallStyle named;
  named.texts = texts;
  switch (format) {
    case ToolCallFormat::kimi_k2:
      named.name_end = kKimiArguments;
      named.numbered = true;
      return read_named_call(named);
    case ToolCallFormat::minimax_m3:
      return read_element_calls(kMinimaxMark, tools, !texts.empty() && texts[0] == kMinimaxMark);
    case ToolCallFormat::gemma4:
      return read_gemma_call(!texts.empty());
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
