// JSON from strangers, and as values of templates.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/result.h"
#include "core/chat/value.h"

namespace tenon::chat {

// Errors (invalid_argument): not JSON or not UTF-8; nested deeper than 64 levels.
Result<nlohmann::ordered_json> parse_json_text(std::string_view text);

// Error: failed, beyond the budget.
Result<Value> make_value(Budget& budget, const nlohmann::ordered_json& json,
                         bool is_trusted = false);

}  // namespace tenon::chat
