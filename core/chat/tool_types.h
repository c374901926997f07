// What a request's tools say that the text of a call does not.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon::chat {

// Parameters by name: the one type that the schema names, empty where it names none or several.
struct ToolTypes {
  std::map<std::string, std::string, std::less<>> parameters;
};

class Tools {
 public:
  // JSON as OpenAI has it, with or without "function" around each. Empty: none.
  // Error: invalid_argument (not a list of objects).
  static Result<Tools> read(std::string_view json);
  bool empty() const { return tools_.empty(); }
  bool knows(std::string_view name) const { return tools_.find(name) != tools_.end(); }
  // Whether a parameter is a text and nothing else.
  bool is_text(std::string_view tool, std::string_view parameter) const;

 private:
  std::map<std::string, ToolTypes, std::less<>> tools_;
};

// The value that a model wrote without quotes, as JSON: what is JSON, or one of Python's words
// True, False and None, is that; all else is a text.
std::string unquoted_value_json(std::string_view text);
// A text as a JSON string, without the quotes. Bytes that are not UTF-8 stay.
std::string escaped_json(std::string_view text);

}  // namespace tenon::chat
