// Every call of a plugin with its beginning and its end, thread by thread, while that is asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/calls/running_calls.h"

namespace tenon {

// Times are nanoseconds since the trace began. Threads count from 0, in the order of their first
// call.
struct TracedCall {
  CallName name = 0;
  uint32_t thread = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};
struct CallTrace {
  std::vector<TracedCall> calls;  // of each thread in the order in which they ended
  uint64_t lost = 0;              // calls for which there was no room
};

// From here on calls are kept, a million a thread at most. What an earlier trace kept is gone.
// [control]
void start_call_trace();
// Ends it. While no call runs. [control]
CallTrace take_call_trace();

}  // namespace tenon
