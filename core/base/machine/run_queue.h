// How many threads want the processors, and how long this process's own have waited for one.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/files/descriptor.h"

namespace tenon {

// Seconds, of all threads together; 0 where the system does not say (Linux without schedstats).
// `tasks` is a folder like /proc/self/task.
double run_queue_seconds(const std::string& tasks = "/proc/self/task");

// How long one thread was ready to run while others had the processors.
class ThreadWait {
 public:
  // Of the calling thread, unless another file like /proc/thread-self/schedstat is named. The file
  // stays open, and any thread may ask.
  explicit ThreadWait(const std::string& path = "/proc/thread-self/schedstat");

  // Since the thread began; 0 where the system does not say.
  int64_t now_ns() const;

 private:
  Descriptor file_;
};

// The file /proc/loadavg, or one like it. It stays open, since opening it takes ten times as long
// as reading it.
class LoadAverages {
 public:
  explicit LoadAverages(const std::string& path = "/proc/loadavg");

  // Threads of the whole machine that run or are ready to, the caller's included; 0 where the
  // system does not say.
  uint32_t runnable_threads() const;

 private:
  Descriptor file_;
};

}  // namespace tenon
