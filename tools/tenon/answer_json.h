// AnswerSettings from a JSON object.
#pragma once

#include <nlohmann/json.hpp>

#include "core/base/result.h"
#include "core/config/answer_settings.h"

namespace tenon {

// Members of other names are left alone. Errors name the member: invalid_argument.
Status read_answer_json(const nlohmann::json& object, AnswerSettings& out);

}  // namespace tenon
