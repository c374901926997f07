// How many threads want the processors, and how long this process's own have waited for one.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

// Seconds, of all threads together; 0 where the system does not say (Linux without schedstats).
// `tasks` is a folder like /proc/self/task.
double run_queue_seconds(const std::string& tasks = "/proc/self/task");

// Threads of the whole machine that run or are ready to, the caller's included; 0 where the system
// does not say. `loadavg` is a file like /proc/loadavg.
uint32_t runnable_threads(const std::string& loadavg = "/proc/loadavg");

}  // namespace tenon
