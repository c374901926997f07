#include "tools/tenon/chat/screen.h"

#include <cstdlib>
#include <cstring>

#include "core/base/quote.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"

namespace tenon {

ChatScreen::ChatScreen() : is_terminal_(stdout_is_terminal()) {
  const char* kind = std::getenv("TERM");
  may_dim_ = is_terminal_ && kind != nullptr && std::strcmp(kind, "dumb") != 0;
}

void ChatScreen::text(std::string_view text) {
  if (text.empty()) return;
  // What a model writes must not move the cursor, or worse.
  put(is_terminal_ ? printable(text, text.size() * 8) : std::string(text));
  in_line_ = !text.ends_with('\n');
}

void ChatScreen::dim(bool on) {
  if (may_dim_ && on != is_dim_) put(on ? "\x1b[2m" : "\x1b[22m");
  is_dim_ = on;
}

void ChatScreen::end_line() {
  if (in_line_) put("\n");
  in_line_ = false;
}

void ChatScreen::show(const std::vector<AnswerDelta>& deltas) {
  for (const AnswerDelta& delta : deltas) {
    if (delta.part != last_ && last_ == AnswerPart::reasoning) {
      dim(false);
      end_line();
      if (is_terminal_) put("\n");
    }
    last_ = delta.part;
    switch (delta.part) {
      case AnswerPart::content:
        text(delta.text);
        break;
      case AnswerPart::reasoning:
        if (!is_terminal_) break;
        dim(true);
        text(delta.text);
        break;
      case AnswerPart::tool_call_begin:
        call_ = delta.name;
        break;
      case AnswerPart::tool_arguments:
        call_ += " " + delta.text;
        break;
      case AnswerPart::tool_call_end:
        end_line();
        text("[calls " + call_ + "]\n");
        break;
      case AnswerPart::tool_call_broken:
        text(delta.text);
        break;
    }
  }
  flush_output();
}

void ChatScreen::end_answer() {
  dim(false);
  // An answer is a line at least.
  if (in_line_ || last_ != AnswerPart::tool_call_end) put("\n");
  in_line_ = false;
  last_ = AnswerPart::content;
  flush_output();
}

}  // namespace tenon
