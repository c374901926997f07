// One HTTP request on its way through the service: how it is answered, and what is noted about it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/http/server.h"
#include "core/server/api/write/error.h"
#include "core/server/models/keys.h"
#include "core/server/models/replicas.h"
#include "core/server/request_log.h"
#include "core/server/request_trace.h"

namespace tenon::server {

// Which shape errors have.
enum class ErrorShape : uint8_t {
  openai,
  anthropic,
  sentence,  // of a protocol that has a status of its own: the message alone
};

http::Response error_response(const api::ApiError& error, ErrorShape shape);

class HttpCall {
 public:
  // `log` may be null and outlives the call; so do `key` and `tracer`.
  HttpCall(const http::Request& request, std::shared_ptr<http::Exchange> exchange, ErrorShape shape,
           std::vector<http::Field> fields, RequestLog* log, Key* key,
           trace::Tracer* tracer = nullptr);
  // What there is to say goes into the log, and to the tracer.
  ~HttpCall();
  HttpCall(const HttpCall&) = delete;
  HttpCall& operator=(const HttpCall&) = delete;

  void answer(http::Response response);
  void answer_json(std::string body);
  void refuse(const api::ApiError& error);
  // Names fields of the request that have no effect, in a header of the response.
  void name_ignored(const std::vector<std::string>& fields);
  // Says what of a schema is ignored, likewise: in ASCII, cut where it is long.
  void tell_schema_notes(const std::vector<std::string>& notes);

  http::Exchange& exchange() { return *exchange_; }
  ErrorShape shape() const { return shape_; }
  Key* key() const { return key_; }
  const PlaceWish& place() const { return place_; }  // among replicas
  RequestTrace* trace() { return trace_.get(); }     // null where it is not traced
  const std::string& id() const { return entry_.id; }
  std::chrono::steady_clock::time_point started() const { return started_; }
  // Changes what is noted. [any thread]
  template <typename Change>
  void note(Change&& change) {
    const std::lock_guard lock(mutex_);
    change(entry_);
  }

 private:
  const std::shared_ptr<http::Exchange> exchange_;
  const ErrorShape shape_;
  std::vector<http::Field> fields_;  // of every response
  RequestLog* const log_;
  Key* const key_;
  PlaceWish place_;
  const std::unique_ptr<RequestTrace> trace_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  LogEntry entry_;
};

// 24 hexadecimal digits, never twice.
std::string fresh_id();

}  // namespace tenon::server
