// What a plugin's process may ask the system for: memory, threads, time, files to read. No sockets,
// no files to write, no programs, no other processes. A call that is refused fails with EPERM, and
// the first one is noted for the program to tell.
//
// By seccomp and, where the kernel has it, Landlock. Not where sanitizers watch the process: they
// ask for more.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace tenon {

// Before the process has threads: nobody whom it could trace, or write files for, is left.
void leave_others_alone();

// From here on, for all threads. `refused` takes 1 + the number of the first call that is refused;
// it lives as long as the process. False: the kernel has no such filters.
bool refuse_system_calls(std::atomic<uint32_t>& refused);

// "socket", of what `refused` took.
std::string_view name_of_refused(uint32_t refused);

}  // namespace tenon
