// Dialects other than OpenAI's completions and chats: the same calls, read and written in another
// way.
#pragma once

#include <memory>

#include "core/server/api/call.h"
#include "core/server/api/write/writer.h"

namespace tenon::api {

// Anthropic's /v1/messages; `counts_only` for /v1/messages/count_tokens, which has no limit.
Outcome<GenerationCall> read_messages_call(const Json& body, bool counts_only = false);
std::unique_ptr<AnswerWriter> make_messages_writer(WriterContext context);

// OpenAI's /v1/responses, as far as nothing has to be kept between two of them.
Outcome<GenerationCall> read_responses_call(const Json& body);
std::unique_ptr<AnswerWriter> make_responses_writer(WriterContext context);

}  // namespace tenon::api
