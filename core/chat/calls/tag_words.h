// The words of a format that writes a call as tags:
// <function=NAME><parameter=KEY>VALUE</parameter></function>.
#pragma once

#include <array>
#include <string_view>

namespace tenon::chat {

struct TagWords {
  std::string_view call_open, call_close;  // around functions; empty: nothing is
  std::string_view function_open;          // comes before a name
  std::string_view name_end;               // after it; empty: the line's end, or the next tag
  std::string_view function_close;
  std::string_view parameter_open;          // comes before a key
  std::array<std::string_view, 2> key_end;  // after it; white space may come between the two
  std::string_view parameter_close;         // after a value
  // Attributes may come between the two of `key_end`: string="true" of a text, string="false" of
  // JSON.
  bool has_attributes = false;
  bool in_lines = false;        // a line end at either side of a value belongs to the tags
  bool lines_in_pairs = false;  // the last one does only if the value began with one

  // Whether it is one of the tags between a call's first and last.
  bool has(std::string_view tag) const {
    return tag == function_close || tag == parameter_open || tag == key_end[0] ||
           (tag == key_end[1] && !tag.empty()) || tag == parameter_close;
  }
};

}  // namespace tenon::chat
