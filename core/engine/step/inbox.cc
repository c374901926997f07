#include "core/engine/step/inbox.h"

#include <algorithm>
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

void Inbox::set_busy(bool busy, int64_t wake_ns) {
  std::lock_guard lock(mutex_);
  busy_ = busy;
  wake_ns_ = wake_ns;
}

bool Inbox::idle() const {
  std::lock_guard lock(mutex_);
  return !busy_ && requests_.empty();
}

int64_t Inbox::wake_ns() const {
  std::lock_guard lock(mutex_);
  return busy_ && requests_.empty() && cancellations_.empty() ? wake_ns_ : 0;
}

bool Inbox::wait_for_work(std::chrono::nanoseconds timeout, const Clock& clock) const {
  std::unique_lock lock(mutex_);
  const auto arrived = [&] { return !requests_.empty() || !cancellations_.empty(); };
  if (!busy_) return work_.wait_for(lock, timeout, arrived);
  const std::chrono::nanoseconds nap(wake_ns_ - clock.now_ns());
  // Not even a wait without length: the system takes 50 µs for it.
  if (nap.count() <= 0) return true;
  if (work_.wait_for(lock, std::min(nap, timeout), arrived)) {
    return true;
  }
  return nap <= timeout;
}

}  // namespace tenon
