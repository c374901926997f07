// JSON from strangers, and as values of templates.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/result.h"
#include "core/jinja/value.h"

namespace tenon::chat {

// Errors (invalid_argument): not JSON or not UTF-8; nested deeper than 64 levels.
Result<nlohmann::ordered_json> parse_json_text(std::string_view text);

// The same, and whole numbers beyond 64 bits keep their digits: they are binary values, which
// make_value reads. For what templates see. Error too: invalid_argument, one beyond 128 bits.
Result<nlohmann::ordered_json> parse_template_json(std::string_view text);
// Null where it is no object, or has no such key.
const nlohmann::ordered_json* json_member(const nlohmann::ordered_json& object,
                                          std::string_view key);

// Error: failed, beyond the budget.
Result<Value> make_value(Budget& budget, const nlohmann::ordered_json& json,
                         bool is_trusted = false);

}  // namespace tenon::chat
