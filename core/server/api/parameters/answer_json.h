// AnswerSettings from a JSON object.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "core/config/answer_settings.h"

namespace tenon {

// A whole number. JSON has one kind of number, so that 100.0 and 1e2 are 100, as many clients write
// it. Null: no number, one with a fraction, or none that 64 bits have.
std::optional<int64_t> whole_json(const nlohmann::ordered_json& value);
// A value as a number, whatever it is.
WrittenNumber written_json(const nlohmann::ordered_json& value);

// One member, which is not null; `name` is what messages call it.
Status read_parameter_json(const Parameter& known, std::string_view name,
                           const nlohmann::ordered_json& value, AnswerSettings& out);

// Every member but those of `others`, which the caller reads; null is as good as absent. Errors
// name the member: invalid_argument, also for one that nobody knows as a key of `what`.
Status read_answer_json(const nlohmann::ordered_json& object, std::string_view what,
                        std::span<const std::string_view> others, AnswerSettings& out);

}  // namespace tenon
