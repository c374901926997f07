// Where a literal of Python ends, in text that arrives a byte at a time: its quotes, brackets and
// comments.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::chat {

class PythonSpan {
 public:
  // Takes another byte of the literal.
  void push(char c);
  // Whether a comma or a bracket would stand outside of everything that was opened.
  bool is_outside() const { return open_ == 0 && (state_ == State::plain || is_empty_text()); }
  bool in_text() const { return state_ == State::text || state_ == State::long_text; }

 private:
  enum class State : uint8_t {
    plain,
    comment,
    first_quote,   // one quote was read: a text begins
    second_quote,  // and another: an empty text, or three of them will be
    text,
    long_text,  // between three quotes
  };
  bool is_empty_text() const { return state_ == State::second_quote; }
  void push_plain(char c);
  void push_text(char c);

  State state_ = State::plain;
  char quote_ = 0;
  bool escaped_ = false;
  uint8_t closing_ = 0;  // quotes in a row at the end of a long text
  size_t open_ = 0;      // brackets
};

}  // namespace tenon::chat
