// Reads a served model's answers as its family writes them: reasoning, content, calls of tools.
#pragma once

#include "core/chat/answers/answer_format.h"
#include "core/server/api/write/answer_parts.h"

namespace tenon {

class Tokenizer;

namespace server {

// Calls are delivered whole, and of more than one where the request wants one at a time the first;
// what looks like a call and is none is content. `tokenizer` outlives the factory.
api::AnswerReaderFactory make_answer_reader(AnswerFormat format, const Tokenizer* tokenizer);

}  // namespace server
}  // namespace tenon
