// Calls as JSON objects, for the readers that meet them in their own surroundings.
#pragma once

#include <string>

#include "core/chat/calls/call_reader.h"

namespace tenon::chat {

class JsonCallReader final : public CallReader {
 public:
  explicit JsonCallReader(const JsonCallStyle& style) : style_(style) {}
  ReadStatus push(char c, AnswerOutput& out) override;
  // Within a string it is text.
  ReadStatus special(std::string_view marker, AnswerOutput& out) override;

 private:
  enum class Field : uint8_t { none, name, id, arguments, function };

  bool before_json(char c);
  bool on_token(JsonStream::Token token, char c, AnswerOutput& out);
  bool on_begin(JsonStream::Token token, char c);
  bool on_string(AnswerOutput& out);
  bool on_end_object(AnswerOutput& out);
  bool begin_if_named(AnswerOutput& out);
  bool known_name() const;
  void begin_object();

  JsonCallStyle style_;
  std::string fence_;  // what was read of it
  bool started_ = false;
  JsonStream json_;
  size_t call_depth_ = 1;  // of the object that is a call
  Field field_ = Field::none;
  std::string string_;  // a key, or a value that is wanted, with its quotes
  bool in_arguments_ = false, has_arguments_ = false, begun_ = false, nested_ = false;
  std::string name_, id_;
  std::string arguments_;  // that wait for the name
};

// The text of a JSON string with its quotes; empty where it is none.
std::string json_string_text(std::string_view quoted);

}  // namespace tenon::chat
