#include "core/chat/calls/python_span.h"

namespace tenon::chat {

void PythonSpan::push(char c) {
  switch (state_) {
    case State::plain:
      return push_plain(c);
    case State::comment:
      if (c == '\n') state_ = State::plain;
      return;
    case State::first_quote:
      state_ = c == quote_ ? State::second_quote : State::text;
      if (state_ == State::text) push_text(c);
      return;
    case State::second_quote:
      state_ = c == quote_ ? State::long_text : State::plain;
      closing_ = 0;
      if (state_ == State::plain) push_plain(c);
      return;
    case State::text:
    case State::long_text:
      return push_text(c);
  }
}

void PythonSpan::push_plain(char c) {
  if (c == '"' || c == '\'') {
    quote_ = c;
    state_ = State::first_quote;
  } else if (c == '#') {
    state_ = State::comment;
  } else if (c == '[' || c == '{' || c == '(') {
    ++open_;
  } else if ((c == ']' || c == '}' || c == ')') && open_ > 0) {
    --open_;
  }
}

// A backslash takes the next byte along, in raw texts too.
void PythonSpan::push_text(char c) {
  if (escaped_) {
    escaped_ = false;
    return;
  }
  if (c != quote_) {
    escaped_ = c == '\\';
    closing_ = 0;
    return;
  }
  const bool ends = state_ == State::text || ++closing_ == 3;
  if (ends) state_ = State::plain;
}

}  // namespace tenon::chat
