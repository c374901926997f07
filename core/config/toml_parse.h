// TOML text as a table of toml++, safe on any text.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

// The number of the first line with so many points outside of strings that the parser, which nests
// a table for each, could exhaust the stack; 0 where there is none.
size_t line_with_too_many_dots(std::string_view text);

// `name` is the file's path, for positions. Error: invalid_argument, with the place.
Result<toml::table> parse_toml(std::string_view text, const std::string& name);

}  // namespace tenon
