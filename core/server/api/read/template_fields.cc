#include "core/server/api/read/template_fields.h"

namespace tenon::api {

void read_template_kwargs(Fields& fields, Json& variables) {
  const Json* given = fields.take("chat_template_kwargs");
  if (given == nullptr) return;
  if (!given->is_object()) return fields.refuse("chat_template_kwargs", "must be an object");
  variables = *given;
}

void read_effort(Fields& fields, Json& variables) {
  const std::string effort = fields.text("reasoning_effort");
  if (!effort.empty()) variables["reasoning_effort"] = effort;
}

void read_reasoning(Fields& fields, Json& variables) {
  const Json* reasoning = fields.take("reasoning");
  if (reasoning == nullptr) return;
  if (!reasoning->is_object()) return fields.refuse("reasoning", "must be an object");
  Fields inner(*reasoning, "reasoning");
  if (const std::string effort = inner.text("effort"); !effort.empty()) {
    if (variables.value("reasoning_effort", Json(effort)) != Json(effort)) {
      inner.refuse("effort", "is not what \"reasoning_effort\" says – leave one of them out");
    }
    variables["reasoning_effort"] = effort;
  }
  if (inner.take("enabled") != nullptr) variables["enable_thinking"] = inner.flag("enabled", true);
  inner.settle(Place::reasoning);
  fields.absorb(inner);
}

void read_thinking(Fields& fields, Json& variables) {
  const Json* thinking = fields.take("thinking");
  if (thinking == nullptr) return;
  const std::string expected = "must be an object of type disabled, adaptive or enabled";
  if (!thinking->is_object()) return fields.refuse("thinking", expected);
  Fields inner(*thinking, "thinking");
  const std::string type = inner.text("type");
  if (type != "disabled" && type != "adaptive" && type != "enabled") {
    return fields.refuse("thinking", expected);
  }
  variables["enable_thinking"] = type != "disabled";
  inner.settle(Place::thinking);
  fields.absorb(inner);
}

void give_variables(const Json& variables, ChatInput& chat) {
  if (!variables.empty()) chat.variables = to_text(variables);
}

}  // namespace tenon::api
