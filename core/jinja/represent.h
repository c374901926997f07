// Values as text: Python's str() and repr(), and JSON as json.dumps writes it.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/jinja/marked_text.h"
#include "core/jinja/value.h"

namespace tenon::chat {

// str(value): what an output tag writes. Errors (invalid_argument): a value that has no text of its
// own (a macro, a namespace, a generator).
Status add_text(const Value& value, TextBuilder& out);
Result<MarkedText> to_text(const Value& value, Budget& budget);
// repr(value): texts in quotes. What holds texts is never trusted as a whole.
Status add_representation(const Value& value, TextBuilder& out);

std::string integer_text(Integer value);
// As Python writes a float: the shortest digits that read back the same.
std::string real_text(double value);

struct JsonStyle {
  bool ascii_only = false;
  std::optional<std::string> indent;  // one level's
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sorts_keys = false;
};
// Errors (invalid_argument): a value that JSON does not have.
Status add_json(const Value& value, const JsonStyle& style, TextBuilder& out);

}  // namespace tenon::chat
