// Where the fragment of a URI leads within a JSON document (RFC 6901).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::chat {

// The keys and indices of "#", "#/a/b" or "#/%7Bx%7D/~1y". Percent escapes are decoded first, then
// "~0" and "~1"; what is no escape stands for itself. Null: the reference leads elsewhere, or names
// an anchor.
std::optional<std::vector<std::string>> json_pointer_steps(std::string_view reference);

}  // namespace tenon::chat
