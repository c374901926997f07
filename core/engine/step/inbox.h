// Where requests wait for the step thread: bounded, and safe to fill from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "core/base/clock.h"
#include "core/base/result.h"
#include "core/engine/requests/request.h"

namespace tenon {

struct SubmittedRequest {
  RequestId id = 0;
  Request request;
};

class Inbox {
 public:
  explicit Inbox(uint32_t capacity) : capacity_(capacity) {}

  // Error `failed` when full. [any thread]
  Result<RequestId> submit(Request request);
  void cancel(RequestId id);  // [any thread]

  // Hands everything over, in order; also notes whether the engine has work besides.
  void drain(std::vector<SubmittedRequest>& requests, std::vector<RequestId>& cancellations);
  // Whether requests are being worked on; with an empty inbox and none, the engine is idle. Before
  // `wake_ns` nothing is to be done for them (0 = at once).
  void set_busy(bool busy, int64_t wake_ns);

  bool idle() const;        // [any thread]
  int64_t wake_ns() const;  // [any thread]
  // True as soon as a step has something to do, false when `timeout` has passed. [any thread]
  bool wait_for_work(std::chrono::nanoseconds timeout, const Clock& clock) const;

 private:
  const uint32_t capacity_;
  mutable std::mutex mutex_;
  mutable std::condition_variable work_;
  std::vector<SubmittedRequest> requests_;
  std::vector<RequestId> cancellations_;
  RequestId next_id_ = 1;
  bool busy_ = false;
  int64_t wake_ns_ = 0;
};

}  // namespace tenon
