// The escapes of a string in quotes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tenon::chat {

// Appends what `inside` stands for, with Python's escapes; one that Python does not know stays as
// it is written. Returns what is wrong, if anything.
std::optional<std::string> unescape_string(std::string_view inside, std::string& out);
// The same of bytes, which have no escapes for characters; `inside` is ASCII.
std::optional<std::string> unescape_bytes(std::string_view inside, std::string& out);

}  // namespace tenon::chat
