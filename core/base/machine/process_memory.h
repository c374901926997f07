// What this process holds of the machine's memory.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

struct ProcessMemory {
  uint64_t anonymous_bytes = 0;  // its own, in memory now; pages of files do not count
  uint64_t huge_bytes = 0;       // of them, in huge pages
  uint64_t file_bytes = 0;       // pages of files, shared with the system's cache
};

// Walks the process's page tables: milliseconds where many small pages are mapped. All zero where
// the system does not tell.
ProcessMemory process_memory();

// The same from a text of the form of /proc/self/smaps_rollup, for tests.
ProcessMemory process_memory_in(const std::string& smaps);

}  // namespace tenon
