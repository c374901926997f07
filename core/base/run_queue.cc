#include "core/base/run_queue.h"

#include <cstdint>
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

uint32_t runnable_threads(const std::string& loadavg) {
  // "0.20 0.18 0.12 2/80 11206": three averages, then runnable threads of all threads
  std::ifstream file(loadavg);
  std::string average;
  uint32_t runnable = 0;
  for (int i = 0; i < 3; ++i) file >> average;
  file >> runnable;
  return file ? runnable : 0;
}

}  // namespace tenon
