// How deep a JSON text is nested, before anything parses it.
#pragma once

#include <cstddef>
#include <string_view>

namespace tenon {

// Counts brackets outside of strings. A text that is no JSON may count wrong: a parser refuses it
// all the same.
inline bool is_nested_deeper(std::string_view text, size_t levels) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++depth > levels) return true;
    } else if (!in_string && (c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace tenon
