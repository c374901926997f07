#include "core/server/api/write/writer.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "core/server/api/dialects.h"

namespace tenon::api {
namespace {

// JSON has no infinity; OpenAI writes this for what cannot be.
constexpr float kLeastLogprob = -9999.0f;

float bounded(float logprob) {
  return logprob > kLeastLogprob ? logprob : kLeastLogprob;
}

// Of an object's keys: bytes that are no text are spelled out, so that they stay apart.
std::string key_text(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "\\x";
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

std::string id_name(TokenId token) {
  return "token_id:" + std::to_string(token);
}

Json one_logprob(TokenId token, float logprob, const TokenText& text, bool as_ids) {
  const std::string bytes = text(token);
  return {{"token", as_ids ? id_name(token) : bytes},
          {"logprob", bounded(logprob)},
          {"bytes", bytes_of(bytes)}};
}

// How many characters a reader of the text counts.
size_t characters(std::string_view bytes) {
  return static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

void AnswerWriter::note(const AnswerEvent& end) {
  count_.add(end);
  if (problem_ || end.kind != AnswerEvent::Kind::end) return;
  if (end.reason == FinishReason::error && end.blame == Blame::request) {
    problem_ = ApiError{.status = 400, .message = end.message};
  } else if (end.reason == FinishReason::error && end.is_lost) {
    problem_ =
        ApiError{.status = 503, .message = end.message, .code = "replica_lost", .retry_after_s = 1};
  } else if (end.reason == FinishReason::error) {
    problem_ = ApiError{.status = 500, .message = end.message, .code = "engine_error"};
  } else if (end.reason == FinishReason::cancelled && !end.is_aborted) {
    problem_ = ApiError{.status = 503,
                        .message = "the server ended this request before it was done",
                        .code = "aborted"};
  }
}

ChunkHead::ChunkHead(const Json& head) : begin_("data: " + to_text(head)) {
  begin_.pop_back();
  begin_ += ",\"choices\":[";
}

void ChunkHead::append(const Json& choice, const std::optional<Json>& usage,
                       std::string& out) const {
  out.append(begin_).append(to_text(choice)).append("]");
  if (usage) out.append(",\"usage\":").append(to_text(*usage));
  out.append("}\n\n");
}

Usage AnswerWriter::usage() const {
  Usage usage = count_.usage();
  usage.reasoning_tokens = reasoning_tokens();
  return usage;
}

std::unique_ptr<AnswerWriter> make_writer(WriterContext context) {
  const GenerationCall& call = *context.call;
  if (call.writer) return call.writer(std::move(context));
  switch (call.dialect) {
    case Dialect::completions:
      return make_completion_writer(std::move(context));
    case Dialect::messages:
      return make_messages_writer(std::move(context));
    case Dialect::responses:
      return make_responses_writer(std::move(context));
    case Dialect::chat:
      break;
  }
  return make_chat_writer(std::move(context));
}

std::unique_ptr<AnswerReader> reader_of(const WriterContext& context, uint32_t sample) {
  const std::string prompt =
      context.prompt_texts.empty() ? std::string() : context.prompt_texts.front();
  std::unique_ptr<AnswerReader> reader;
  if (context.reader) reader = context.reader({*context.call, prompt, context.prompt_ids, sample});
  return reader == nullptr ? plain_reader() : std::move(reader);
}

std::string_view openai_finish_reason(FinishReason reason) {
  if (reason == FinishReason::uncached) return "cache_threshold";
  return reason == FinishReason::length ? "length" : "stop";
}

Json stop_reason(const AnswerEvent& end) {
  return end.stop.empty() ? Json() : Json(end.stop);
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.generated_tokens},
          {"total_tokens", usage.prompt_tokens + usage.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json chat_usage_json(const Usage& usage) {
  Json json = usage_json(usage);
  json["completion_tokens_details"] = {{"reasoning_tokens", usage.reasoning_tokens}};
  return json;
}

void end_stream(const WriterContext& context, Json head, const Json& usage, std::string& out) {
  const bool hands_over = !context.kv_transfer.is_null();
  if (context.call->include_usage || hands_over) {
    head["choices"] = Json::array();
    if (context.call->include_usage) head["usage"] = usage;
    if (hands_over) head["kv_transfer_params"] = context.kv_transfer;
    append_event(head, out);
  }
  out += "data: [DONE]\n\n";
}

std::string whole_answer(const WriterContext& context, Json head, Json choices, const Json& usage) {
  head["choices"] = std::move(choices);
  head["usage"] = usage;
  if (!context.kv_transfer.is_null()) head["kv_transfer_params"] = context.kv_transfer;
  return to_text(head);
}

Json chat_logprobs(const std::vector<AnswerToken>& tokens, uint32_t top, const TokenText& text,
                   bool as_ids) {
  Json content = Json::array();
  for (const AnswerToken& token : tokens) {
    Json entry = one_logprob(token.id, token.logprob, text, as_ids);
    Json alternatives = Json::array();
    for (size_t i = 0; i < std::min<size_t>(top, token.top.size()); ++i) {
      alternatives.push_back(one_logprob(token.top[i].token, token.top[i].logprob, text, as_ids));
    }
    entry["top_logprobs"] = std::move(alternatives);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs(const std::vector<AnswerToken>& tokens, uint32_t top,
                         const TokenText& text, size_t& offset, bool as_ids) {
  Json offsets = Json::array(), logprobs = Json::array(), texts = Json::array();
  Json alternatives = Json::array();
  for (const AnswerToken& token : tokens) {
    const std::string bytes = text(token.id);
    texts.push_back(as_ids ? id_name(token.id) : key_text(bytes));
    offsets.push_back(offset);
    offset += characters(bytes);
    // The first token of a prompt has nothing before it.
    const bool is_scored = !token.top.empty();
    logprobs.push_back(is_scored ? Json(bounded(token.logprob)) : Json());
    Json likely = Json::object();
    for (size_t i = 0; i < std::min<size_t>(top, token.top.size()); ++i) {
      const TokenId other = token.top[i].token;
      likely[as_ids ? id_name(other) : key_text(text(other))] = bounded(token.top[i].logprob);
    }
    alternatives.push_back(is_scored && top > 0 ? std::move(likely) : Json());
  }
  return {{"text_offset", std::move(offsets)},
          {"token_logprobs", std::move(logprobs)},
          {"tokens", std::move(texts)},
          {"top_logprobs", top > 0 ? std::move(alternatives) : Json()}};
}

}  // namespace tenon::api
