// Messages of a conversation, as OpenAI has them.
#pragma once

#include <set>
#include <string>

#include "core/server/api/read/fields.h"
#include "core/server/api/read/json.h"

namespace tenon::api {

// Names of members that have no effect here.
using Notes = std::set<std::string>;
// A member that no table knows, by its name if that may stand in a response's head: names are any
// text, and there may be any number of them. Else it is one of the "others".
void note_unknown(Notes& notes, const std::string& name);
void note_ignored(Fields& fields, const Notes& notes);

// Checked, and contents of several parts made one text, a line each. Errors: status 400.
Outcome<Json> read_messages(const Json& messages, Notes& notes);

// The member "role", which has to be one of OpenAI's.
std::string read_role(Fields& fields);
// A text, or a list of parts of which all are texts. `name` is what messages call it; a part at
// fault is named by its place in it.
Outcome<std::string> read_content(const Json& content, const std::string& name, Notes& notes);

}  // namespace tenon::api
