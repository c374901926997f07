// A process of its own for something that may crash, hang or eat all memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "tools/tenon/process/process_time.h"

namespace tenon {

struct EndedProcess {
  enum class How : uint8_t { exited, killed_by_signal, out_of_time };
  How how = How::exited;
  int number = 0;  // the exit status, or the signal
  std::string output;
  std::string errors;                               // what it said on standard error
  double seconds = 0;                               // by the clock
  TimeLimit limit = TimeLimit::none;                // out_of_time: which one was over
  double computed_seconds = 0, waited_seconds = 0;  // likewise: up to then
};

// Runs `command` (a path and its arguments) with the environment `variables` (empty: this program's
// own) to its end, or ends it and all that it started when a
// limit is over. Keeps the first MiB of what it says. Error: it cannot be started.
Result<EndedProcess> run_process(const std::vector<std::string>& command, const TimeLimits& limits,
                                 const std::vector<std::string>& variables = {});

// This program's environment, and malloc without the memory that each thread keeps of what it
// freed: so that what a case has lost can be told from that (core/conformance/watch/heap_growth.h).
std::vector<std::string> case_environment();

// For this process: no core files, and memory that ends somewhere. Not where sanitizers, which map
// terabytes, watch it.
void limit_this_process();

}  // namespace tenon
