// How `tenon chat` shows an answer while it comes: on a terminal with its reasoning dimmed and its
// calls as lines of their own, elsewhere the content alone.
#pragma once

#include <string>
#include <vector>

#include "core/chat/answers/answer_parser.h"

namespace tenon {

class ChatScreen {
 public:
  ChatScreen();
  bool is_terminal() const { return is_terminal_; }
  void show(const std::vector<AnswerDelta>& deltas);
  // The answer has ended, or was stopped.
  void end_answer();

 private:
  void text(std::string_view text);
  void dim(bool on);
  void end_line();

  bool is_terminal_;
  bool may_dim_;
  bool is_dim_ = false;
  bool in_line_ = false;  // something stands in the line
  AnswerPart last_ = AnswerPart::content;
  std::string call_;  // that is being shown
};

}  // namespace tenon
