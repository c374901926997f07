// Splits what a model writes into content, reasoning and calls of tools, as it comes.
//
// Any cutting of the answer into pieces gives the same result. Nothing of what may be the beginning
// of a marker is delivered before it is decided; white space that touches a marker goes with it.
// What looked like a call and is none is delivered as content.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/chat/answers/answer_format.h"

namespace tenon {

class Tokenizer;

enum class AnswerPart : uint8_t {
  content,
  reasoning,
  tool_call_begin,   // `index`, `id`, `name`
  tool_arguments,    // a piece of the call's arguments: JSON text
  tool_call_end,     // the arguments are whole: an object
  tool_call_broken,  // they are not, and never will be; `text` is all that the model wrote for it
};

struct AnswerDelta {
  AnswerPart part = AnswerPart::content;
  uint32_t index = 0;  // of the call, from 0 on
  std::string id;      // of a call: as the model wrote it before its arguments, else made up
  std::string name;    // of the function
  std::string text;

  bool operator==(const AnswerDelta&) const = default;
};

struct AnswerOptions {
  AnswerFormat format;
  // The tools of the request, JSON as OpenAI has them. Empty: none, and calls are content. They say
  // of which type arguments are where the format does not, and which names are calls where nothing
  // else marks one.
  std::string tools = {};
  // What the answer goes on from: the rendered conversation. Templates may open the reasoning in
  // it.
  std::string_view prompt = {};
  // A call is delivered when all of it is there, in one piece of arguments. tool_call_broken does
  // not occur then: such calls are content.
  bool whole_calls = false;
  // Ids of calls are made from it, so that they differ between answers.
  uint64_t id_seed = 0;
};

// Not thread safe. Copies nothing of what it is given but `tools`.
class AnswerParser {
 public:
  // With a tokenizer, which outlives the parser, markers that are special tokens of it are known by
  // their ids and by nothing else; `prompt_ids` are the ids that the answer goes on from.
  // Error: invalid_argument (the tools are no list of objects).
  static Result<AnswerParser> make(const AnswerOptions& options,
                                   const Tokenizer* tokenizer = nullptr,
                                   std::span<const TokenId> prompt_ids = {});
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;
  ~AnswerParser();

  // Appends what is certain to `out`. Without a tokenizer.
  void push(std::string_view text, std::vector<AnswerDelta>& out);
  // With one: as RequestDelta has them. `tokens` are all tokens of the answer in order; `text` is
  // theirs without special tokens, and may lag behind them.
  void push(std::string_view text, std::span<const TokenId> tokens, std::vector<AnswerDelta>& out);
  // The answer has ended. Appends what was held back. The parser is used up.
  void finish(std::vector<AnswerDelta>& out);

  // Whether a call was delivered: finish_reason is "tool_calls" then.
  bool called() const;
  // With a tokenizer: how many tokens were thought, the end of thinking included.
  uint32_t reasoning_tokens() const;

 private:
  class Impl;
  explicit AnswerParser(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Deltas put together.
struct Answer {
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;  // JSON text
  };
  std::string content;
  std::string reasoning;
  std::vector<Call> calls;

  // A call that turns out to be broken is taken out again, and what the model wrote is content.
  void add(const AnswerDelta& delta);
};

// All of a text at once.
Result<Answer> parse_answer(std::string_view text, const AnswerOptions& options);

}  // namespace tenon
