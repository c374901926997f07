// How long this process's threads have been ready to run while others had the processors.
#pragma once

#include <string>

namespace tenon {

// Seconds, of all threads together; 0 where the system does not say (Linux without schedstats).
// `tasks` is a folder like /proc/self/task.
double run_queue_seconds(const std::string& tasks = "/proc/self/task");

}  // namespace tenon
