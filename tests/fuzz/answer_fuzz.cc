// An answer of any format, cut anywhere, gives what the whole gives; arguments of calls that ended
// begin as JSON objects.
//
// Input: two bytes for the formats, one for options and cutting, then the answer.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/chat/answers/answer_parser.h"
#include "tests/fuzz/target.h"

namespace {

using tenon::AnswerDelta;
using tenon::AnswerOptions;
using tenon::AnswerParser;
using tenon::AnswerPart;

constexpr size_t kHeaderBytes = 3;
constexpr const char* kTools =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}}}])";

void require(bool holds) {
  if (!holds) std::abort();
}

std::vector<AnswerDelta> parse(std::string_view text, const AnswerOptions& options, size_t piece) {
  auto parser = AnswerParser::make(options);
  require(parser.ok());
  std::vector<AnswerDelta> deltas;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    parser->push(text.substr(0, piece), deltas);
  }
  parser->finish(deltas);
  return deltas;
}

void check(const std::vector<AnswerDelta>& deltas) {
  uint32_t next = 0;
  std::string arguments;
  for (const AnswerDelta& delta : deltas) {
    if (delta.part == AnswerPart::tool_call_begin) {
      require(delta.index == next && !delta.name.empty() && !delta.id.empty());
      arguments.clear();
    }
    if (delta.part == AnswerPart::tool_arguments) arguments += delta.text;
    if (delta.part == AnswerPart::tool_call_end) require(arguments.starts_with('{'));
    if (delta.part == AnswerPart::tool_call_end || delta.part == AnswerPart::tool_call_broken) {
      ++next;
    }
  }
}

}  // namespace

TENON_FUZZ_TARGET(answer, const uint8_t* data, size_t size) {
  if (size < kHeaderBytes) return 0;
  const auto calls = tenon::tool_call_formats();
  const auto reasoning = tenon::reasoning_formats();
  AnswerOptions options;
  options.format = {calls[data[0] % calls.size()], reasoning[data[1] % reasoning.size()]};
  options.tools = kTools;
  options.whole_calls = (data[2] & 1) != 0;
  options.prompt = (data[2] & 2) != 0 ? "<think>" : "<|start|>assistant";
  const std::string_view text(reinterpret_cast<const char*>(data) + kHeaderBytes,
                              size - kHeaderBytes);
  const auto whole = parse(text, options, std::max<size_t>(text.size(), 1));
  check(whole);
  require(parse(text, options, 1) == whole);
  require(parse(text, options, 2 + data[2] / 4) == whole);
  return 0;
}
