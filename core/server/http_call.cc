#include "core/server/http_call.h"

#include <cstdio>
#include <random>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/server/models/model_list.h"

namespace tenon::server {

std::string fresh_id() {
  static const uint64_t kStart = (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  static std::atomic<uint32_t> count{0};
  char text[32];
  std::snprintf(text, sizeof(text), "%016llx%08x", static_cast<unsigned long long>(kStart),
                count.fetch_add(1) + 1);
  return text;
}

http::Response error_response(const api::ApiError& error, ErrorShape shape) {
  http::Response response{.status = error.status};
  const bool is_json = shape != ErrorShape::sentence;
  response.fields.push_back({"Content-Type", is_json ? "application/json" : "text/plain"});
  if (error.retry_after_s > 0) {
    response.fields.push_back({"Retry-After", std::to_string(error.retry_after_s)});
  }
  if (error.status == 401) response.fields.push_back({"WWW-Authenticate", "Bearer"});
  response.body = !is_json                         ? error.message
                  : shape == ErrorShape::anthropic ? api::messages_error_json(error)
                                                   : api::error_json(error);
  return response;
}

HttpCall::HttpCall(const http::Request& request, std::shared_ptr<http::Exchange> exchange,
                   ErrorShape shape, std::vector<http::Field> fields, RequestLog* log, Key* key,
                   trace::Tracer* tracer)
    : exchange_(std::move(exchange)),
      shape_(shape),
      fields_(std::move(fields)),
      log_(log),
      key_(key),
      trace_(RequestTrace::begin(tracer, request)) {
  if (const std::string* rank = request.find("x-data-parallel-rank")) place_.rank = *rank;
  if (const std::string* session = request.find("x-session-id")) place_.session = *session;
  entry_.id = fresh_id();
  entry_.method = request.method;
  entry_.path = request.path;
  entry_.peer = request.peer;
  if (key != nullptr) entry_.key = key->name();
  fields_.push_back({"X-Request-Id", entry_.id});
  if (shape == ErrorShape::anthropic || is_anthropics(request)) {
    fields_.push_back({"Request-Id", "req_" + entry_.id});
  }
}

HttpCall::~HttpCall() {
  if (entry_.status == 0 && !entry_.aborted) {  // the exchange answers what nobody answered
    entry_.status = 500;
    entry_.error = "the request was dropped";
  }
  if (trace_ != nullptr) trace_->end(entry_);
  if (log_ == nullptr) return;
  const auto spent = std::chrono::steady_clock::now() - started_;
  entry_.total_ms = std::chrono::duration<double, std::milli>(spent).count();
  log_->write(entry_);
}

void HttpCall::answer(http::Response response) {
  note([&](LogEntry& entry) {
    if (entry.status == 0) entry.status = response.status;
  });
  response.fields.insert(response.fields.end(), fields_.begin(), fields_.end());
  exchange_->answer(std::move(response));
}

void HttpCall::answer_json(std::string body) {
  http::Response response;
  response.fields.push_back({"Content-Type", "application/json"});
  response.body = std::move(body);
  answer(std::move(response));
}

void HttpCall::refuse(const api::ApiError& error) {
  note([&](LogEntry& entry) {
    const bool is_first = entry.status == 0 && !entry.aborted;
    if (is_first && error.status >= 500) entry.error = one_line(error.message);
  });
  answer(error_response(error, shape_));
}

void HttpCall::name_ignored(const std::vector<std::string>& fields) {
  if (!fields.empty()) fields_.push_back({"Tenon-Ignored-Fields", join(fields)});
}

void HttpCall::tell_schema_notes(const std::vector<std::string>& notes) {
  constexpr size_t kMostBytes = 2000;
  constexpr std::string_view kDash = "–";
  std::string value;
  const std::string text = join(notes, "; ");
  for (size_t i = 0; i < text.size() && value.size() < kMostBytes; ++i) {
    const bool is_dash = text.compare(i, kDash.size(), kDash) == 0;
    const auto byte = static_cast<unsigned char>(text[i]);
    value.push_back(is_dash ? '-' : byte < 0x20 || byte >= 0x7f ? '?' : text[i]);
    if (is_dash) i += kDash.size() - 1;
  }
  if (!value.empty()) fields_.push_back({"Tenon-Schema-Notes", std::move(value)});
}

}  // namespace tenon::server
