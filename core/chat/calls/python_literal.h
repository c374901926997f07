// Values as Python writes them, as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tenon::chat {

// Every literal that ast.literal_eval takes and JSON has a value for: texts with their prefixes,
// three quotes, one after the other; numbers in any base; True, False and None (JSON's words too);
// lists, tuples, sets and dictionaries with keys that JSON can write. Bytes are the text that they
// spell in UTF-8. Null where it is anything else: complex numbers, what is not finite, "...",
// numbers of more than 4,300 digits (Python's own limit), characters by name (\N{…}).
// A line end may stand in a text between single quotes, which Python refuses and models write.
std::optional<std::string> python_literal_json(std::string_view text);

}  // namespace tenon::chat
