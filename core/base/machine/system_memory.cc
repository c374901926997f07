#include "core/base/machine/system_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

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

// The number after a word, in a file of words and numbers.
std::optional<uint64_t> number_after(std::string_view wanted, const std::string& path) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    uint64_t number = 0;
    if (word == wanted && file >> number) return number;
  }
  return std::nullopt;
}

uint64_t system_bytes(std::string_view line, const std::string& root) {
  const auto kib = number_after(line, root + "/proc/meminfo");
  return kib ? *kib * 1024 : kUnknown;
}

// The two versions of control groups differ in where they stand and how their files are called.
struct GroupFiles {
  std::string_view mounted;
  std::string_view controller;  // in /proc/self/cgroup: "0::/a/b", or "5:memory:/a/b"
  std::string_view limit, used, reclaimable;
};
constexpr GroupFiles kVersions[] = {
    {"/sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file"},
    {"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file"},
};

// Whether a list such as "cpu,memory" has the controller.
bool has_controller(std::string_view list, std::string_view controller) {
  if (controller.empty()) return list.empty();
  while (true) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == controller) return true;
    if (comma == list.npos) return false;
    list.remove_prefix(comma + 1);
  }
}

// The group of this process, "/a/b"; "" for the root, or where nothing says.
std::string own_group(const GroupFiles& version, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const auto list = std::string_view(line).substr(first + 1, second - first - 1);
    if (!has_controller(list, version.controller)) continue;
    const std::string path = line.substr(second + 1);
    return path == "/" ? "" : path;
  }
  return "";
}

// Files that the system gives back when memory is short count as used, but can be had.
uint64_t left_in(const std::string& folder, const GroupFiles& version, uint64_t limit) {
  const auto used = number_in(folder + std::string(version.used));
  if (!used) return kUnknown;
  const uint64_t files = number_after(version.reclaimable, folder + "memory.stat").value_or(0);
  const uint64_t taken = *used - std::min(*used, files);
  return limit > taken ? limit - taken : 0;
}

enum class Wanted : uint8_t { total, available };

// What the limits of a process's control groups leave: its own, and each around it.
uint64_t group_bytes(Wanted wanted, const GroupFiles& version, const std::string& root) {
  uint64_t least = kUnknown;
  std::string group = own_group(version, root);
  for (bool more = true; more;) {
    const std::string folder = root + std::string(version.mounted) + group + "/";
    if (const auto limit = number_in(folder + std::string(version.limit))) {
      least = std::min(least, wanted == Wanted::total ? *limit : left_in(folder, version, *limit));
    }
    more = !group.empty();
    if (more) group.resize(std::min(group.rfind('/'), group.size() - 1));
  }
  return least;
}

uint64_t bytes_under(Wanted wanted, const std::string& root) {
  uint64_t least = system_bytes(wanted == Wanted::total ? "MemTotal:" : "MemAvailable:", root);
  for (const GroupFiles& version : kVersions) {
    least = std::min(least, group_bytes(wanted, version, root));
  }
  return least;
}

}  // namespace

uint64_t available_memory_bytes_under(const std::string& root) {
  return bytes_under(Wanted::available, root);
}

uint64_t total_memory_bytes_under(const std::string& root) {
  return bytes_under(Wanted::total, root);
}

uint64_t available_memory_bytes() {
  return available_memory_bytes_under("");
}

uint64_t total_memory_bytes() {
  return total_memory_bytes_under("");
}

}  // namespace tenon
