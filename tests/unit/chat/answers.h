// What the tests of answers share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/chat/answers/answer_parser.h"
#include "tests/unit/chat/fixtures.h"

namespace tenon {

inline const std::string kTools = R"([
  {"type": "function", "function": {"name": "weather", "parameters": {"type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "clock", "parameters": {"type": "object",
    "properties": {}}}}])";

inline AnswerOptions answer_options(ToolCallFormat calls,
                                    ReasoningFormat reasoning = ReasoningFormat::none) {
  AnswerOptions options;
  options.format = {calls, reasoning};
  options.tools = kTools;
  return options;
}

using Deltas = std::vector<AnswerDelta>;

// In pieces of so many bytes, the last one perhaps shorter.
inline Deltas deltas_of(std::string_view text, const AnswerOptions& options, size_t piece) {
  AnswerParser parser = must(AnswerParser::make(options));
  Deltas deltas;
  for (size_t at = 0; at < text.size(); at += piece) parser.push(text.substr(at, piece), deltas);
  parser.finish(deltas);
  return deltas;
}

inline Deltas deltas_of(std::string_view text, const AnswerOptions& options) {
  return deltas_of(text, options, std::max<size_t>(text.size(), 1));
}

// "content{…} reasoning{…} weather{…}", without what is empty.
inline std::string shown(const Answer& answer) {
  std::string text;
  if (!answer.reasoning.empty()) text += "reasoning{" + answer.reasoning + "} ";
  if (!answer.content.empty()) text += "content{" + answer.content + "} ";
  for (const Answer::Call& call : answer.calls) {
    text += call.name + call.arguments + " ";
    EXPECT_TRUE(nlohmann::json::accept(call.arguments)) << call.arguments;
  }
  if (!text.empty()) text.pop_back();
  return text;
}

inline std::string shown(std::string_view text, const AnswerOptions& options) {
  return shown(must(parse_answer(text, options)));
}

}  // namespace tenon
