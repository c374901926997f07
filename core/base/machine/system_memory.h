// How much memory this process may take.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

// Bytes that can be had without swapping: the system's own estimate, or less where a control group
// of this process sets a limit. All of int64 when nothing says.
uint64_t available_memory_bytes();
// Bytes that this process could have if nobody else took any: the machine's memory, or the lowest
// limit of its control groups. All of int64 when nothing says.
uint64_t total_memory_bytes();

// The same with the files below `root` instead of "/", for tests.
uint64_t available_memory_bytes_under(const std::string& root);
uint64_t total_memory_bytes_under(const std::string& root);

}  // namespace tenon
