// Fields that say something to the model's chat template, whichever dialect has them. Each becomes
// a variable of the template.
#pragma once

#include "core/server/api/call.h"
#include "core/server/api/read/fields.h"

namespace tenon::api {

// "chat_template_kwargs", vLLM's: variables by their own names.
void read_template_kwargs(Fields& fields, Json& variables);
// "reasoning_effort" of chats.
void read_effort(Fields& fields, Json& variables);
// "reasoning": {"effort": …}, of responses and OpenRouter's chats.
void read_reasoning(Fields& fields, Json& variables);
// "thinking": {"type": …}, of Anthropic's messages and SGLang's chats: whether a template that
// knows of it lets the model think. How long, nobody can tell it.
void read_thinking(Fields& fields, Json& variables);
// Where there are any.
void give_variables(const Json& variables, ChatInput& chat);

}  // namespace tenon::api
