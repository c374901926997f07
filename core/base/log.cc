#include "core/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr size_t kMostLineBytes = 4096;

std::atomic<LogLevel> threshold{LogLevel::warning};

struct Sink {
  std::mutex mutex;
  LogSink function;
};
Sink& sink() {
  static Sink instance;
  return instance;
}

spdlog::logger& stderr_logger() {
  static std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "tenon", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %^%l%$ %v");
    made->set_level(spdlog::level::trace);  // our own threshold decides
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void log(LogLevel level, std::string_view component, std::string_view text) noexcept {
  if (level < threshold.load(std::memory_order_relaxed)) return;
  try {
    const std::string speaker = one_line(component);
    const std::string line = one_line(text, kMostLineBytes);
    const std::lock_guard lock(sink().mutex);
    if (sink().function) {
      sink().function(level, speaker, line);
    } else {
      stderr_logger().log(to_spdlog(level), "{}: {}", speaker, line);
    }
  } catch (...) {
    // A line that cannot be written is lost; nothing else may fail because of it.
  }
}

void set_log_level(LogLevel level) noexcept {
  threshold = level;
}
LogLevel log_level() noexcept {
  return threshold;
}

std::optional<LogLevel> parse_log_level(std::string_view name) noexcept {
  if (name == "debug") return LogLevel::debug;
  if (name == "info") return LogLevel::info;
  if (name == "warning") return LogLevel::warning;
  if (name == "error") return LogLevel::error;
  return std::nullopt;
}

void set_log_sink(LogSink function) {
  const std::lock_guard lock(sink().mutex);
  sink().function = std::move(function);
}

}  // namespace tenon
