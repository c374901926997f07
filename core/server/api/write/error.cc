#include "core/server/api/write/error.h"

#include "core/base/quote.h"
#include "core/server/api/read/json.h"

namespace tenon::api {
namespace {

std::string_view openai_type(unsigned status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

std::string_view anthropic_type(unsigned status) {
  if (status == 413) return "request_too_large";
  if (status == 503) return "overloaded_error";
  return status >= 500 ? "api_error" : openai_type(status);
}

Json or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace

ApiError error_of(const Status& status) {
  const bool is_callers = status.code() == StatusCode::invalid_argument ||
                          status.code() == StatusCode::unsupported ||
                          status.code() == StatusCode::not_found;
  return {.status = is_callers ? 400u : 500u, .message = message_of(status)};
}

void tell_context_length(ApiError& error, uint64_t prompt_tokens, uint64_t context_tokens,
                         bool is_anthropic) {
  const std::string most = std::to_string(context_tokens);
  std::string words = "This model's maximum context length is " + most + " tokens. However, ";
  if (is_anthropic) {
    words = "prompt is too long: " + std::to_string(prompt_tokens) + " tokens > " + most +
            " maximum. " + words;
  }
  error.message = words + error.message;
  error.code = "context_length_exceeded";
}

void tell_entry(ApiError& error, std::string_view field, size_t index, size_t entries) {
  if (entries < 2) return;
  error.message = std::string(field) + "[" + std::to_string(index) + "]: " + error.message;
}

std::string error_json(const ApiError& error) {
  return to_text({{"error",
                   {{"message", printable(error.message)},
                    {"type", openai_type(error.status)},
                    {"param", or_null(error.param)},
                    {"code", or_null(error.code)}}}});
}

std::string messages_error_json(const ApiError& error) {
  Json inner = {{"type", anthropic_type(error.status)}, {"message", printable(error.message)}};
  if (!error.code.empty()) inner["details"] = {{"error_code", error.code}};
  return to_text({{"type", "error"}, {"error", std::move(inner)}});
}

}  // namespace tenon::api
