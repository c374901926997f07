#include "core/base/system_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

namespace tenon {
namespace {

// Far below 2^64, so that sums do not wrap.
constexpr uint64_t kUnknown = std::numeric_limits<int64_t>::max();

// A file with one number; null where there is none (a limit may also be the word "max").
std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

uint64_t system_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string word;
  while (file >> word) {
    uint64_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return kUnknown;
}

// What the limit of a control group leaves, in version 2 and in version 1.
uint64_t group_bytes(const std::string& folder, const char* limit_file, const char* used_file) {
  const auto limit = number_in(folder + "/" + limit_file);
  const auto used = number_in(folder + "/" + used_file);
  if (!limit || !used) return kUnknown;
  return *limit > *used ? *limit - *used : 0;
}

}  // namespace

uint64_t available_memory_bytes_under(const std::string& root) {
  const std::string groups = root + "/sys/fs/cgroup";
  return std::min(
      {system_bytes(root), group_bytes(groups, "memory.max", "memory.current"),
       group_bytes(groups + "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")});
}

uint64_t available_memory_bytes() {
  return available_memory_bytes_under("");
}

}  // namespace tenon
