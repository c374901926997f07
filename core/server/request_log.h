// One line of JSON for each request, when it is over. What was asked and answered is not in it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/result.h"

namespace tenon::server {

struct LogEntry {
  std::string id, method, path, peer;
  std::string key;    // the name of whose it was
  std::string model;  // empty where none was asked
  unsigned status = 0;
  bool stream = false;
  bool aborted = false;  // the client went away before it had all, or read too slowly
  std::string error;     // what the server could not do, also where the answer had begun
  uint64_t prompt_tokens = 0, generated_tokens = 0, cached_tokens = 0;
  double first_token_ms = -1.0;  // from the request's arrival; negative = there was none
  double total_ms = 0.0;
};

std::string log_line(const LogEntry& entry, const std::string& time);

// Lines are written by a thread of its own: those that end requests wait for no disk.
class RequestLog {
 public:
  // Adds to the file. Error: it cannot be written.
  static Result<std::unique_ptr<RequestLog>> open(const std::string& path);
  // Writes what is left.
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  void write(const LogEntry& entry);  // [any thread]

 private:
  explicit RequestLog(std::FILE* file);
  void run();

  std::FILE* const file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string lines_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace tenon::server
