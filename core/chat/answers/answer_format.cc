#include "core/chat/answers/answer_format.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/chat/chat_template.h"

namespace tenon {
namespace {

struct CallName {
  ToolCallFormat format;
  std::string_view name;
};
constexpr CallName kCallNames[] = {
    {ToolCallFormat::none, "none"},
    {ToolCallFormat::hermes, "hermes"},
    {ToolCallFormat::longcat, "longcat"},
    {ToolCallFormat::qwen3_coder, "qwen3_coder"},
    {ToolCallFormat::seed_oss, "seed_oss"},
    {ToolCallFormat::minimax_m2, "minimax_m2"},
    {ToolCallFormat::minimax_m3, "minimax_m3"},
    {ToolCallFormat::glm, "glm"},
    {ToolCallFormat::llama3_json, "llama3_json"},
    {ToolCallFormat::pythonic, "pythonic"},
    {ToolCallFormat::mistral, "mistral"},
    {ToolCallFormat::granite, "granite"},
    {ToolCallFormat::phi4_mini, "phi4_mini"},
    {ToolCallFormat::command_r, "command_r"},
    {ToolCallFormat::command_r7b, "command_r7b"},
    {ToolCallFormat::deepseek_v3, "deepseek_v3"},
    {ToolCallFormat::deepseek_v31, "deepseek_v31"},
    {ToolCallFormat::deepseek_v32, "deepseek_v32"},
    {ToolCallFormat::deepseek_v4, "deepseek_v4"},
    {ToolCallFormat::deepseek_v41, "deepseek_v41"},
    {ToolCallFormat::kimi_k2, "kimi_k2"},
    {ToolCallFormat::nemotron, "nemotron"},
    {ToolCallFormat::olmo3, "olmo3"},
    {ToolCallFormat::gemma, "gemma"},
    {ToolCallFormat::gemma4, "gemma4"},
    {ToolCallFormat::harmony, "harmony"},
    {ToolCallFormat::json, "json"},
};

struct ReasoningName {
  ReasoningFormat format;
  std::string_view name;
};
constexpr ReasoningName kReasoningNames[] = {
    {ReasoningFormat::none, "none"},
    {ReasoningFormat::think, "think"},
    {ReasoningFormat::think_response, "think_response"},
    {ReasoningFormat::think_answer, "think_answer"},
    {ReasoningFormat::seed_oss, "seed_oss"},
    {ReasoningFormat::minimax_m3, "minimax_m3"},
    {ReasoningFormat::longcat, "longcat"},
    {ReasoningFormat::mistral, "mistral"},
    {ReasoningFormat::command_r, "command_r"},
    {ReasoningFormat::granite, "granite"},
    {ReasoningFormat::gemma4, "gemma4"},
    {ReasoningFormat::harmony, "harmony"},
};

template <typename Named>
auto formats_of(std::span<const Named> names) {
  std::vector<decltype(Named::format)> formats;
  for (const Named& named : names) formats.push_back(named.format);
  return formats;
}

template <typename Named>
std::string_view find_name(std::span<const Named> names, decltype(Named::format) format) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [format](const Named& named) { return named.format == format; });
  return found == names.end() ? std::string_view() : found->name;
}

template <typename Named>
Result<decltype(Named::format)> find_format(std::span<const Named> names, std::string_view name,
                                            std::string_view what) {
  std::vector<std::string> known;
  for (const Named& named : names) {
    if (named.name == name) return named.format;
    known.emplace_back(named.name);
  }
  return invalid_argument(in_quotes(name) + " is no format of " + std::string(what) +
                          " – expected one of " + join(known) + did_you_mean(name, known));
}

// What a template writes, or tells the model to write, where it is of a format. The first that all
// stand in it decides.
struct CallMarks {
  ToolCallFormat format;
  std::array<std::string_view, 2> marks;  // empty: none
};
constexpr CallMarks kCallMarks[] = {
    {ToolCallFormat::harmony, {"<|channel|>", "<|message|>"}},
    {ToolCallFormat::gemma4, {"<|tool_call>", "<tool_call|>"}},
    {ToolCallFormat::deepseek_v41, {"｜DSML｜", " calls>"}},
    {ToolCallFormat::deepseek_v32, {"｜DSML｜", "function_calls>"}},
    {ToolCallFormat::deepseek_v4, {"｜DSML｜", "tool_calls>"}},
    {ToolCallFormat::minimax_m3, {"]<]minimax[>[", "<invoke name="}},
    {ToolCallFormat::glm, {"<arg_key>", "<arg_value>"}},
    {ToolCallFormat::minimax_m2, {"<minimax:tool_call>", "<invoke name="}},
    {ToolCallFormat::seed_oss, {"<seed:tool_call>", "<parameter="}},
    {ToolCallFormat::kimi_k2, {"<|tool_call_begin|>", "<|tool_call_argument_begin|>"}},
    {ToolCallFormat::longcat, {"<longcat_tool_call>", "\"arguments\""}},
    {ToolCallFormat::mistral, {"[TOOL_CALLS]", ""}},
    {ToolCallFormat::deepseek_v3, {"<｜tool▁sep｜>", "```json"}},
    {ToolCallFormat::deepseek_v31, {"<｜tool▁sep｜>", ""}},
    {ToolCallFormat::command_r7b, {"<|START_ACTION|>", "tool_name"}},
    {ToolCallFormat::command_r, {"Action:", "tool_name"}},
    {ToolCallFormat::qwen3_coder, {"<tool_call>", "<parameter="}},
    {ToolCallFormat::nemotron, {"<TOOLCALL>", ""}},
    {ToolCallFormat::olmo3, {"<function_calls>", "<functions>"}},
    {ToolCallFormat::granite, {"<|tool_call|>", "<|start_of_role|>"}},
    {ToolCallFormat::phi4_mini, {"functools", ""}},
    {ToolCallFormat::phi4_mini, {"<|tool|>", "<|/tool|>"}},
    {ToolCallFormat::pythonic, {"<|python_start|>", ""}},
    {ToolCallFormat::pythonic, {"<|tool_call_start|>", ""}},
    {ToolCallFormat::pythonic, {"[func_name1(", ""}},
    {ToolCallFormat::llama3_json, {"<|python_tag|>", "\"parameters\":"}},
    {ToolCallFormat::llama3_json, {"{\"name\": function name, \"parameters\":", ""}},
    {ToolCallFormat::gemma, {"<start_of_turn>", "<end_of_turn>"}},
};
// Formats that begin as one of ours and go on otherwise.
constexpr std::string_view kOtherCalls[] = {"<function name=", "|DSML|"};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

ToolCallFormat call_format_of(std::string_view source) {
  for (const std::string_view other : kOtherCalls) {
    if (contains(source, other)) return ToolCallFormat::none;
  }
  for (const CallMarks& known : kCallMarks) {
    const bool fits =
        std::all_of(known.marks.begin(), known.marks.end(),
                    [source](std::string_view mark) { return contains(source, mark); });
    if (fits) return known.format;
  }
  const bool is_tagged = contains(source, "<tool_call>") && contains(source, "</tool_call>");
  const bool is_list = contains(source, "<tool_calls>") && contains(source, "</tool_calls>");
  return (is_tagged || is_list) && contains(source, "arguments") ? ToolCallFormat::hermes
                                                                 : ToolCallFormat::none;
}

ReasoningFormat reasoning_format_of(std::string_view source) {
  if (contains(source, "<|channel|>") && contains(source, "<|message|>")) {
    return ReasoningFormat::harmony;
  }
  if (contains(source, "[THINK]")) return ReasoningFormat::mistral;
  if (contains(source, "<|START_THINKING|>")) return ReasoningFormat::command_r;
  if (contains(source, "<|channel>") && contains(source, "<channel|>")) {
    return ReasoningFormat::gemma4;
  }
  if (contains(source, "<seed:think>")) return ReasoningFormat::seed_oss;
  if (contains(source, "<mm:think>")) return ReasoningFormat::minimax_m3;
  if (contains(source, "<longcat_think>")) return ReasoningFormat::longcat;
  if (contains(source, "<think>") || contains(source, "</think>")) {
    return contains(source, "<response></response>") ? ReasoningFormat::think_response
           : contains(source, "<answer>") && contains(source, "</answer>")
               ? ReasoningFormat::think_answer
               : ReasoningFormat::think;
  }
  return contains(source, "Here is my thought process:") ? ReasoningFormat::granite
                                                         : ReasoningFormat::none;
}

}  // namespace

AnswerFormat answer_format_of(std::string_view template_source) {
  return {call_format_of(template_source), reasoning_format_of(template_source)};
}

AnswerFormat answer_format_of(const ChatTemplate& chat_template) {
  const std::string_view with_tools = chat_template.source("tool_use");
  return answer_format_of(with_tools.empty() ? chat_template.source("default") : with_tools);
}

std::string_view name_of(ToolCallFormat format) {
  return find_name<CallName>(kCallNames, format);
}

std::string_view name_of(ReasoningFormat format) {
  return find_name<ReasoningName>(kReasoningNames, format);
}

std::span<const ToolCallFormat> tool_call_formats() {
  static const std::vector<ToolCallFormat> kFormats = formats_of<CallName>(kCallNames);
  return kFormats;
}

std::span<const ReasoningFormat> reasoning_formats() {
  static const std::vector<ReasoningFormat> kFormats = formats_of<ReasoningName>(kReasoningNames);
  return kFormats;
}

Result<ToolCallFormat> tool_call_format_by_name(std::string_view name) {
  return find_format<CallName>(kCallNames, name, "tool calls");
}

Result<ReasoningFormat> reasoning_format_by_name(std::string_view name) {
  return find_format<ReasoningName>(kReasoningNames, name, "reasoning");
}

}  // namespace tenon
