// What the JSON reader says of a text, without its own name for it.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// The part of "[json.exception.parse_error.101] parse error at …" after the bracket.
inline std::string json_fault(std::string_view what) {
  const size_t end = what.find("] ");
  if (what.starts_with('[') && end != std::string_view::npos) what.remove_prefix(end + 2);
  return std::string(what);
}

}  // namespace tenon
