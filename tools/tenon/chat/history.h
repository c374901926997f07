// The messages of a conversation, as chat templates take them.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/result.h"
#include "core/chat/answers/answer_parser.h"

namespace tenon {

class ChatHistory {
 public:
  // Replaces the system message, the first one; empty: there is none.
  void set_system(const std::string& text);
  void add_user(const std::string& text);
  void add_answer(const Answer& answer);
  // To the first call of the last answer that has none. Error: invalid_argument (there is no such).
  Status add_tool_result(const std::string& text);
  // Calls of the last answer that wait for a result.
  size_t open_calls() const;

  // The last thing that the user said, and all after it. False: there is none.
  bool undo();
  // The last answer, with its calls and their results. False: nothing was answered yet.
  bool drop_answer();
  // The oldest thing that the user said, and the answer. False: there is nothing but the last.
  bool drop_oldest();
  // All but the system message.
  void reset();

  bool empty() const { return messages_.empty(); }
  // Messages other than the system's.
  size_t spoken() const;
  // A JSON list; negative: on one line.
  std::string text(int indent = -1) const;

  // A JSON file, as `tenon chat render --messages` reads it. An existing file is replaced as a
  // whole.
  Status save(const std::string& path) const;
  // Errors: those of reading a file; invalid_argument (not a list of messages).
  Status load(const std::string& path);

 private:
  using Messages = nlohmann::ordered_json;
  bool has_system() const;
  // The place of the last message of a role; the number of messages where there is none.
  size_t last_of(const char* role) const;
  void cut(size_t size);

  Messages messages_ = Messages::array();
};

}  // namespace tenon
