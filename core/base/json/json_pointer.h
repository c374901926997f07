// Where the fragment of a URI leads within a JSON document (RFC 6901).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// RFC 3986, section 2.1. A percent sign without two digits stands for itself.
std::string without_percent_escapes(std::string_view text);

// The keys and indices of "" (none), "/a/b" or "/~1y": "~0" and "~1" are decoded, what is no escape
// stands for itself. `pointer` is empty or begins with a slash.
std::vector<std::string> json_pointer_steps(std::string_view pointer);

// The step as an index into an array; null where it is none, or beyond a million.
std::optional<size_t> json_pointer_index(std::string_view step);

}  // namespace tenon
