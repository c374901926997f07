// What reads an answer a byte, or a special token, at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/chat/answers/answer_output.h"
#include "core/chat/answers/answer_syntax.h"
#include "core/chat/calls/tool_types.h"

namespace tenon::chat {

class AnswerMachine {
 public:
  virtual ~AnswerMachine() = default;
  virtual void push(char c, AnswerOutput& out) = 0;
  // One of `specials`.
  virtual void special(std::string_view marker, AnswerOutput& out) = 0;
  virtual void finish(AnswerOutput& out) = 0;
  // What comes next is thought, or the end of thinking.
  virtual bool is_reasoning() const = 0;
};

// Of `markers`, those that are not special tokens: what is one is not looked for in the text.
MarkerTexts without(const MarkerTexts& markers, const MarkerTexts& specials);
MarkerTexts all_markers(const AnswerFormat& format);

// `tools` outlives it; empty: calls are not looked for. `prompt` is what the answer goes on from.
std::unique_ptr<AnswerMachine> marked_answer(const AnswerFormat& format, const Tools& tools,
                                             std::string_view prompt, const MarkerTexts& specials);
std::unique_ptr<AnswerMachine> harmony_answer(const Tools& tools, std::string_view prompt,
                                              const MarkerTexts& specials);

}  // namespace tenon::chat
