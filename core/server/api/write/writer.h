// Turns an engine's events into the bytes of a response: one JSON object, or server-sent events.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/server/api/write/answer_parts.h"
#include "core/server/api/write/events.h"

namespace tenon::api {

// The members of a message of chat that have what the model thought.
enum class ReasoningField : uint8_t { both, reasoning, reasoning_content };
std::optional<ReasoningField> parse_reasoning_field(std::string_view name);

// What the writers of all dialects are given.
struct WriterContext {
  const GenerationCall* call = nullptr;  // outlives the writer
  std::string id;                        // "chatcmpl-…"
  std::string model;                     // as it is served here
  std::string fingerprint;               // of the pipeline
  int64_t created = 0;                   // seconds since 1970
  TokenText token_text;
  AnswerReaderFactory reader = {};
  std::vector<std::string> prompt_texts = {};  // completions with `echo`, and conversations
  std::vector<TokenId> prompt_ids = {};        // where there is one prompt
  Json kv_transfer = {};  // where another worker finds the prompt's K/V; null: nobody is to
  ReasoningField reasoning_field = ReasoningField::both;
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // With `stream` the event's bytes are appended, otherwise it is kept.
  virtual void take(const AnswerEvent& event, std::string& out) = 0;
  // After the last event: the end of the stream, or the whole object.
  virtual void finish(std::string& out) = 0;
  // In a stream: what went wrong, as its last event.
  virtual void fail(const ApiError& error, std::string& out) = 0;

  // Where a sample ended in an error: status 500, 400 where the request itself is to blame, or 503
  // for what the server's end cut off.
  const std::optional<ApiError>& problem() const { return problem_; }
  Usage usage() const;

 protected:
  // Of all samples, as their readers count them.
  virtual uint64_t reasoning_tokens() const { return 0; }
  // Every writer's first word on a delta or an end.
  void note(const AnswerEvent& event);

 private:
  UsageCount count_;
  std::optional<ApiError> problem_;
};

// A stream's chunks differ in their choices: the text before them is made once.
class ChunkHead {
 public:
  // The members before "choices": one at least.
  explicit ChunkHead(const Json& head);
  // The event of a chunk with one choice; without `usage` it has no such member.
  void append(const Json& choice, const std::optional<Json>& usage, std::string& out) const;

 private:
  std::string begin_;
};

std::unique_ptr<AnswerWriter> make_writer(WriterContext context);
std::unique_ptr<AnswerWriter> make_completion_writer(WriterContext context);
std::unique_ptr<AnswerWriter> make_chat_writer(WriterContext context);

// Reads a sample of a conversation's answer; where nothing else does, all of it is content.
std::unique_ptr<AnswerReader> reader_of(const WriterContext& context, uint32_t sample);

// "stop" or "length".
std::string_view openai_finish_reason(FinishReason reason);
// What ended an answer, as vLLM has it: a stop text, else null.
Json stop_reason(const AnswerEvent& end);
Json usage_json(const Usage& usage);
Json chat_usage_json(const Usage& usage);
// The ends of OpenAI's dialects, from the members before "choices". Of a stream: a chunk with what
// is true of the whole, where there is any, and "[DONE]". Else all choices, with the same.
void end_stream(const WriterContext& context, Json head, const Json& usage, std::string& out);
std::string whole_answer(const WriterContext& context, Json head, Json choices, const Json& usage);
// Of chat: a list of {"token", "logprob", "bytes", "top_logprobs"}. `as_ids`: a token is called
// "token_id:5", which tells those apart whose texts are the same or no UTF-8.
Json chat_logprobs(const std::vector<AnswerToken>& tokens, uint32_t top, const TokenText& text,
                   bool as_ids = false);
// Of completions. `offset` is where the first token stands in the text; it is moved after the
// last.
Json completion_logprobs(const std::vector<AnswerToken>& tokens, uint32_t top,
                         const TokenText& text, size_t& offset, bool as_ids = false);

}  // namespace tenon::api
