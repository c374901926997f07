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

}  // namespace tenon
