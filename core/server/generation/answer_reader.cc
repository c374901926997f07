#include "core/server/generation/answer_reader.h"

#include <functional>
#include <utility>

#include "core/chat/answers/answer_parser.h"
#include "core/server/generation/answer_form.h"

namespace tenon::server {
namespace {

using Part = api::AnswerPart;

class FamilyReader final : public api::AnswerReader {
 public:
  FamilyReader(AnswerParser parser, bool parallel)
      : parser_(std::move(parser)), parallel_(parallel) {}

  void push(std::string_view text, std::span<const TokenId> tokens,
            std::vector<Part>& out) override {
    parser_.push(text, tokens, deltas_);
    take(out);
  }
  void finish(std::vector<Part>& out) override {
    parser_.finish(deltas_);
    take(out);
  }
  uint32_t reasoning_tokens() const override { return parser_.reasoning_tokens(); }

 private:
  void take(std::vector<Part>& out) {
    for (AnswerDelta& delta : deltas_) add(delta, out);
    deltas_.clear();
  }
  void add(AnswerDelta& delta, std::vector<Part>& out) const {
    const bool of_call =
        delta.part != tenon::AnswerPart::content && delta.part != tenon::AnswerPart::reasoning;
    if (of_call && delta.index > 0 && !parallel_) return;
    switch (delta.part) {
      case tenon::AnswerPart::content:
        return out.push_back({.kind = Part::Kind::content, .text = std::move(delta.text)});
      case tenon::AnswerPart::reasoning:
        return out.push_back({.kind = Part::Kind::reasoning, .text = std::move(delta.text)});
      case tenon::AnswerPart::tool_call_begin:
        return out.push_back({.kind = Part::Kind::tool_call,
                              .text = std::move(delta.name),
                              .id = std::move(delta.id)});
      case tenon::AnswerPart::tool_arguments:
        return out.push_back({.kind = Part::Kind::arguments, .text = std::move(delta.text)});
      case tenon::AnswerPart::tool_call_end:
      // The end of a call is missing, and what came of it stays.
      case tenon::AnswerPart::tool_call_broken:
        return;
    }
  }

  AnswerParser parser_;
  const bool parallel_;
  std::vector<AnswerDelta> deltas_;
};

// A form is all of the answer except the reasoning before it: no marker counts in it, and what
// looks like a call is what was asked for, unless a call was.
AnswerFormat format_for(const api::ReaderInput& input, AnswerFormat family) {
  const api::GenerationCall& call = input.call;
  const bool is_forced = call.tools && call.tools->is_forced();
  if (!call.form && !is_forced) return family;
  AnswerFormat format{is_forced ? ToolCallFormat::json : ToolCallFormat::none,
                      ReasoningFormat::none};
  if (!reasoning_before_form(call, family.reasoning, input.prompt_text)) return format;
  const bool marks_content = family.reasoning == ReasoningFormat::think_response ||
                             family.reasoning == ReasoningFormat::think_answer;
  format.reasoning = marks_content ? ReasoningFormat::think : family.reasoning;
  return format;
}

}  // namespace

api::AnswerReaderFactory make_answer_reader(AnswerFormat format, const Tokenizer* tokenizer) {
  return [format, tokenizer](const api::ReaderInput& input) -> std::unique_ptr<api::AnswerReader> {
    const std::optional<api::ToolUse>& tools = input.call.tools;
    AnswerOptions options;
    options.format = format_for(input, format);
    if (options.format == AnswerFormat()) return api::plain_reader();
    if (tools && tools->choice != "none") options.tools = input.call.chat.tools;
    options.prompt = input.prompt_text;
    // A stream has calls as they come, and cannot take one back that breaks off. In a whole answer
    // one that does is content, unless it was forced: nothing but a limit breaks it then.
    options.whole_calls = !input.call.stream && !(tools && tools->is_forced());
    // Turns of a conversation have prompts of their own, and so have their calls' ids.
    options.id_seed = std::hash<std::string_view>()(input.prompt_text) + input.sample;
    Result<AnswerParser> parser = AnswerParser::make(options, tokenizer, input.prompt_ids);
    if (!parser.ok()) return nullptr;  // tools were looked at when the request was read
    return std::make_unique<FamilyReader>(*std::move(parser), !tools || tools->parallel);
  };
}

}  // namespace tenon::server
