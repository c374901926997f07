// Lines for people, on stderr. Data never goes here: a program's results are on stdout.
#pragma once

#include <tenon/host.h>

#include <functional>
#include <optional>
#include <string_view>

namespace tenon {

// One line: both texts are escaped and cut (quote.h), line ends too. `component` says who speaks
// ("engine", "scheduler chunked"). [any thread]
void log(LogLevel level, std::string_view component, std::string_view text) noexcept;

// Lines below `level` are dropped. The default is warning.
void set_log_level(LogLevel level) noexcept;
LogLevel log_level() noexcept;
// "debug", "info", "warning", "error".
std::optional<LogLevel> parse_log_level(std::string_view name) noexcept;

// Lines go to `sink` instead of stderr until the next call; an empty one restores stderr. The sink
// is called under a lock and must not log. Meant for tests and for programs that embed the core.
using LogSink = std::function<void(LogLevel, std::string_view component, std::string_view text)>;
void set_log_sink(LogSink sink);

}  // namespace tenon
