// How a process that is not a child of this one came to its end, as far as Linux tells others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

// A file below /proc, as far as it can be read: a process may end meanwhile. Empty: not at all.
std::string process_text(const std::string& path);

// A descriptor of a process, readable once it has ended (pidfd_open(2)); -1: there is none.
int process_descriptor(int64_t process);

// What wait(2) gives to the parent of a process that has ended. From /proc while nobody has asked
// for it yet, else from the kernel (PIDFD_GET_INFO, Linux 6.15); nothing where neither tells.
std::optional<int> wait_status_of(int descriptor, int64_t process);

// Whether it was killed by SIGKILL, or crashed: nobody ends in order so.
bool is_violent(int wait_status);

// Processes that the system has killed since it started, to have their memory back.
uint64_t killed_for_memory();

// "it was killed by SIGKILL: …", "it crashed with SIGSEGV". `killed_before`: what killed_for_memory
// said while the process ran.
std::string how_it_ended(std::optional<int> wait_status, uint64_t killed_before);

}  // namespace tenon
