// The tools of a request in a conversation, whichever dialect names them, and calls that must be
// made.
#pragma once

#include <span>
#include <string_view>

#include "core/server/api/call.h"
#include "core/server/api/read/fields.h"

namespace tenon::api {

// OpenAI's "allowed_tools": {"mode": "auto" or "required", "tools": […]}, functions by their names.
// False where the object is no such thing.
bool read_allowed_tools(const Json& object, ToolUse& use);

// Whether the tool is of a type that begins with one of these and is not offered here. It is named
// as ignored then: agents offer such tools next to their own, and a model need not call any.
bool leave_out_tool(Fields& fields, const Json& tool, size_t index,
                    std::span<const std::string_view> types);

// Takes the tools, as chats have them: {"type": "function", "function": {"name", "parameters"}}.
// Refuses what is no such list, and a choice that is none of them. Tools that may not be called
// are left out.
void give_tools(Fields& fields, const Json& tools, ToolUse use, GenerationCall& call);

// Where a tool must be called, the form of the answer: a list of {"name", "arguments"}, the
// arguments by the tool's own schema. It comes after all that reads forms. A form of contents, such
// as OpenAI's "response_format", has no effect on such an answer; another form is refused.
void force_calls(Fields& fields, GenerationCall& call);

}  // namespace tenon::api
