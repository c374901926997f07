// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

// Bytes that can be had without swapping: the system's own estimate, or less where a control group
// sets a limit. All of int64 when nothing says.
uint64_t available_memory_bytes();

// The same with the files below `root` instead of "/", for tests.
uint64_t available_memory_bytes_under(const std::string& root);

}  // namespace tenon
