// Requests of <tenon/llm_c.h> as what the room asks and listens to.
#pragma once

#include <tenon/llm_c.h>

#include "core/llm/session.h"

namespace tenon::llm {

Status null_argument(const char* name);

// Errors: what is wrong with pointers, counts and numbers; not with what they say.
Result<Question> question_of(const tenon_llm_request& given);
// Calls the caller's functions. [step]
CallListener listener_of(const tenon_llm_request& given);

}  // namespace tenon::llm
