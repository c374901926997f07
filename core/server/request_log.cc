#include "core/server/request_log.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include "core/base/quote.h"
#include "core/base/threads/start_thread.h"
#include "core/server/api/read/json.h"

namespace tenon::server {
namespace {

// "2026-11-22T16:39:32.123Z"
std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[40];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  char fraction[8];
  std::snprintf(fraction, sizeof(fraction), ".%03dZ", static_cast<int>(ms % 1000));
  return std::string(text, length) + fraction;
}

api::Json or_null(const std::string& text) {
  return text.empty() ? api::Json() : api::Json(text);
}

}  // namespace

std::string log_line(const LogEntry& entry, const std::string& time) {
  return api::to_text({{"time", time},
                       {"id", entry.id},
                       {"peer", entry.peer},
                       {"key", or_null(entry.key)},
                       {"method", entry.method},
                       {"path", entry.path},
                       {"model", or_null(entry.model)},
                       {"status", entry.status},
                       {"stream", entry.stream},
                       {"aborted", entry.aborted},
                       {"error", or_null(entry.error)},
                       {"prompt_tokens", entry.prompt_tokens},
                       {"completion_tokens", entry.generated_tokens},
                       {"cached_tokens", entry.cached_tokens},
                       {"first_token_ms",
                        entry.first_token_ms < 0.0 ? api::Json() : api::Json(entry.first_token_ms)},
                       {"total_ms", entry.total_ms}}) +
         "\n";
}

Result<std::unique_ptr<RequestLog>> RequestLog::open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) {
    return failed("cannot write the request log " + path_in_quotes(path) + ": " +
                  std::strerror(errno));
  }
  return std::unique_ptr<RequestLog>(new RequestLog(file));
}

RequestLog::RequestLog(std::FILE* file) : file_(file), thread_(start_thread([this] { run(); })) {}

RequestLog::~RequestLog() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
  thread_.join();
  std::fclose(file_);
}

void RequestLog::write(const LogEntry& entry) {
  const std::string line = log_line(entry, utc_now());
  {
    const std::lock_guard lock(mutex_);
    lines_ += line;
  }
  changed_.notify_one();
}

void RequestLog::run() {
  std::unique_lock lock(mutex_);
  while (!closed_ || !lines_.empty()) {
    changed_.wait(lock, [this] { return closed_ || !lines_.empty(); });
    const std::string lines = std::exchange(lines_, {});
    lock.unlock();
    std::fwrite(lines.data(), 1, lines.size(), file_);
    std::fflush(file_);
    lock.lock();
  }
}

}  // namespace tenon::server
