#include "core/base/machine/process_memory.h"

#include <fstream>
#include <sstream>

namespace tenon {

ProcessMemory process_memory_in(const std::string& smaps) {
  ProcessMemory memory;
  uint64_t resident = 0;
  std::istringstream lines(smaps);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    uint64_t kib = 0;
    if (!(words >> key >> kib)) continue;
    if (key == "Rss:") resident = kib * 1024;
    if (key == "Anonymous:") memory.anonymous_bytes = kib * 1024;
    if (key == "AnonHugePages:") memory.huge_bytes = kib * 1024;
  }
  memory.file_bytes = resident > memory.anonymous_bytes ? resident - memory.anonymous_bytes : 0;
  return memory;
}

ProcessMemory process_memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string text;
  std::getline(file, text, '\0');  // where reading fails: no text, and no exception
  return process_memory_in(text);
}

}  // namespace tenon
