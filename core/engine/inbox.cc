#include "core/engine/inbox.h"

#include <string>

namespace tenon {

Result<RequestId> Inbox::submit(Request request) {
  std::lock_guard lock(mutex_);
  if (requests_.size() >= capacity_) {
    return failed("the inbox holds " + std::to_string(requests_.size()) +
                  " requests that were not admitted yet, its limit – submit again later");
  }
  const RequestId id = next_id_++;
  requests_.push_back({id, std::move(request)});
  work_.notify_all();
  return id;
}

void Inbox::cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  // Of the ids handed out; anything else is no request and would only cost memory.
  if (id == 0 || id >= next_id_) return;
  cancellations_.push_back(id);
  work_.notify_all();
}

void Inbox::drain(std::vector<SubmittedRequest>& requests, std::vector<RequestId>& cancellations) {
  requests.clear();
  cancellations.clear();
  std::lock_guard lock(mutex_);
  requests.swap(requests_);
  cancellations.swap(cancellations_);
  busy_ = busy_ || !requests.empty();
}

void Inbox::set_busy(bool busy) {
  std::lock_guard lock(mutex_);
  busy_ = busy;
}

bool Inbox::idle() const {
  std::lock_guard lock(mutex_);
  return !busy_ && requests_.empty();
}

bool Inbox::wait_for_work(std::chrono::nanoseconds timeout) const {
  std::unique_lock lock(mutex_);
  return work_.wait_for(lock, timeout, [&] { return busy_ || !requests_.empty(); });
}

}  // namespace tenon
