// Values over several lines, as Python's pprint writes them.
#pragma once

#include "core/base/result.h"
#include "core/jinja/marked_text.h"
#include "core/jinja/value.h"

namespace tenon::chat {

// In lines of 80 characters, with the keys of dictionaries in order. Errors: as add_representation.
Status add_pretty(const Value& value, TextBuilder& out);

}  // namespace tenon::chat
