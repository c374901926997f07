#include "core/base/machine/run_queue.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace tenon {

double run_queue_seconds(const std::string& tasks) {
  std::error_code error;
  uint64_t sum_ns = 0;
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    // "running waiting slices", the first two in nanoseconds
    uint64_t running = 0, waiting = 0;
    std::ifstream file(task.path() / "schedstat");
    if (file >> running >> waiting) sum_ns += waiting;
  }
  return static_cast<double>(sum_ns) * 1e-9;
}

ThreadWait::ThreadWait(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

int64_t ThreadWait::now_ns() const {
  char text[96] = {};
  const ssize_t length = ::pread(file_.get(), text, sizeof(text) - 1, 0);
  long long waiting = 0;
  return length > 0 && std::sscanf(text, "%*u %lld", &waiting) == 1 ? waiting : 0;
}

LoadAverages::LoadAverages(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

uint32_t LoadAverages::runnable_threads() const {
  // "0.20 0.18 0.12 2/80 11206": three averages, then runnable threads of all threads
  char text[128] = {};
  const ssize_t length = ::pread(file_.get(), text, sizeof(text) - 1, 0);
  uint32_t runnable = 0;
  const bool found = length > 0 && std::sscanf(text, "%*s %*s %*s %u/", &runnable) == 1;
  return found ? runnable : 0;
}

}  // namespace tenon
