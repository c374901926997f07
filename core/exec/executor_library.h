// An executor that is a library of its own: libtenon-executor-<name>.so in the folder `executors`
// beside the plugins'. It is part of this program that can be left out, no plugin: it speaks the
// core's private C++, so it must come from the same build. Its note (owner "TENON", type 2) holds
// TENON_EXECUTOR_STAMP, a hash over the private headers, the compiler and its flags; any difference
// refuses it before its code runs.
//
//   Result<std::unique_ptr<Executor>> make(const HostFacts& host);
//   TENON_EXECUTOR_LIBRARY(make)
//
// Where it cannot run here, `make` returns unsupported with the reason ("there is no driver").
#pragma once

#include <tenon/host.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/log.h"
#include "core/base/result.h"
#include "core/exec/executor.h"

namespace tenon {

struct ExecutorLibrary {
  Result<std::unique_ptr<Executor>> (*make)(const HostFacts& host);
  // A library holds its own copy of core/base. Its lines go where the program's go.
  void (*log_to)(LogSink sink);
};
inline void log_to(LogSink sink) {
  set_log_level(LogLevel::debug);  // the program's level decides
  set_log_sink(std::move(sink));
}
inline constexpr const char* kExecutorLibrarySymbol = "tenon_executor_library";

#ifdef TENON_EXECUTOR_STAMP  // given by tenon_add_executor
struct ExecutorNote {
  uint32_t owner_bytes = 6;
  uint32_t text_bytes = sizeof(text);
  uint32_t type = 2;
  char owner[8] = {'T', 'E', 'N', 'O', 'N', 0, 0, 0};
  char text[20] = TENON_EXECUTOR_STAMP;
};
#endif

}  // namespace tenon

// Once a library, at namespace scope.
#define TENON_EXECUTOR_LIBRARY(make)                                                     \
  [[gnu::used, gnu::section(".note.tenon"),                                              \
    gnu::aligned(4)]] static constexpr ::tenon::ExecutorNote kTenonExecutorNote;         \
  extern "C" [[gnu::visibility("default"),                                               \
               gnu::used]] constexpr ::tenon::ExecutorLibrary tenon_executor_library = { \
      make, &::tenon::log_to};
