// Parameters of an answer as somebody wrote them down in texts: on a command line, in a chat, in a
// call of the library. Names and values are those of docs/formats/generation.md.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/config/answer_settings.h"

namespace tenon::llm {

// "true" or "false". Error: invalid_argument, which begins with `name`. [any thread]
Result<bool> written_truth(const std::string& name, const std::string& text);

// Both return what is wrong with the text, or an empty text if nothing is. [any thread]

// One value; of a list one entry.
std::string add_entry(AnswerSettings& answer, const Parameter& parameter, const std::string& text);
// Likewise, but a list may be a JSON list of entries.
std::string add_written(AnswerSettings& answer, const Parameter& parameter,
                        const std::string& text);

}  // namespace tenon::llm
