// The tools of a request in a conversation, whichever dialect names them, and calls that must be
// made.
#pragma once

#include "core/server/api/call.h"
#include "core/server/api/fields.h"

namespace tenon::api {

// Takes the tools, as chats have them: {"type": "function", "function": {"name", "parameters"}}.
// Refuses what is no such list, and a choice that is none of them.
void give_tools(Fields& fields, const Json& tools, ToolUse use, GenerationCall& call);

// Where a tool must be called, the form of the answer: a list of {"name", "arguments"}, the
// arguments by the tool's own schema. It comes after all that reads forms. OpenAI's
// "response_format" is of contents, which such an answer has none of; another form is refused.
void force_calls(Fields& fields, GenerationCall& call);

}  // namespace tenon::api
