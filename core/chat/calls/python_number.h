// Numbers as Python writes them, as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tenon::chat {

// "1_000", "0x1F", "0b1", ".5", "5.", "1e5", without a sign. Null where it is none, or none that
// JSON has.
std::optional<std::string> python_number_json(std::string_view written);

}  // namespace tenon::chat
