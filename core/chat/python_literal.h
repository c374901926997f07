// Values as Python writes them, as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tenon::chat {

// Texts, numbers, True, False and None (JSON's words too), lists, tuples and dictionaries with keys
// that are texts or numbers. Null where it is anything else.
std::optional<std::string> python_literal_json(std::string_view text);

}  // namespace tenon::chat
