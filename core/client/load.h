// A load on a server: many questions, sent when they are due, and what came back.
#pragma once

#include <functional>
#include <vector>

#include "core/client/session.h"

namespace tenon::client {

struct LoadRequest {
  Question question = {};
  int64_t due_ns = 0;  // after the start; an open loop sends then, whatever is still unanswered
};

struct LoadPlan {
  std::vector<LoadRequest> requests = {};
  // Closed loop: so many at once, each answer makes room for the next; when they are due does not
  // count. 0 = open loop.
  uint32_t in_flight = 0;
  // Asked some twenty times a second: true ends it as Session::stop() does.
  std::function<bool()> is_unwanted = nullptr;
};

struct LoadRow {
  size_t index = 0;    // of the request in the plan
  int64_t due_ns = 0;  // absolute; of a closed loop when there was room
  Answer answer;       // whose sent_ns is later than due_ns by as much as this program was late
};

struct LoadResult {
  int64_t start_ns = 0, end_ns = 0;  // of the monotonic clock; the end is that of the last answer
  size_t unsent = 0;                 // where it was stopped
};

// Runs the session until all is answered or Session::stop() is called. `on_row` gets each request
// as it ends, those that stop() ended included; what was never sent gets no row.
LoadResult run_load(Session& session, const LoadPlan& plan,
                    const std::function<void(LoadRow)>& on_row);

}  // namespace tenon::client
