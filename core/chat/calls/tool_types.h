// What a request's tools say that the text of a call does not.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/chat/calls/allowed_values.h"

namespace tenon::chat {

// Not thread safe: what was asked is kept.
class Tools {
 public:
  // JSON as OpenAI has it, with or without "function" around each. Empty: none.
  // Error: invalid_argument (not a list of objects).
  static Result<Tools> read(std::string_view json);
  bool empty() const { return tools_.empty(); }
  bool knows(std::string_view name) const { return tools_.find(name) != tools_.end(); }
  // What the schema of a tool says of one parameter, or of a value within one; of an unknown tool,
  // nothing.
  const ParameterSchema& parameter(std::string_view tool, std::string_view name) const;
  const ParameterSchema& value(std::string_view tool, const ValuePath& path) const;

 private:
  struct Tool {
    std::shared_ptr<const nlohmann::ordered_json> schema;  // of its parameters; null: none
    mutable std::map<ValuePath, ParameterSchema> asked = {};
  };
  std::map<std::string, Tool, std::less<>> tools_;
};

// The value that a model wrote without quotes, as JSON, where nothing is known of its type: what is
// JSON, or one of Python's words True, False and None, is that; all else is a text.
std::string unquoted_value_json(std::string_view text);
// A text as a JSON string, without the quotes. Bytes that are not UTF-8 stay.
std::string escaped_json(std::string_view text);

}  // namespace tenon::chat
