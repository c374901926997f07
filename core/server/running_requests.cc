#include "core/server/running_requests.h"

#include <utility>
#include <vector>

namespace tenon::server {

uint64_t RunningRequests::add(const std::string& name, const Key* key, End end) {
  const std::lock_guard lock(mutex_);
  entries_.emplace(name, Entry{++count_, key, std::move(end)});
  return count_;
}

void RunningRequests::remove(const std::string& name, uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = entries_.equal_range(name);
  for (auto entry = first; entry != last; ++entry) {
    if (entry->second.number != number) continue;
    entries_.erase(entry);
    return;
  }
}

void RunningRequests::abort(std::span<const std::string> names, const Key* key) {
  std::vector<End> ends;
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& name : names) {
      const auto [first, last] = entries_.equal_range(name);
      for (auto entry = first; entry != last; ++entry) {
        if (entry->second.key == key) ends.push_back(entry->second.end);
      }
    }
  }
  // Ending one may remove it.
  for (const End& end : ends) end();
}

}  // namespace tenon::server
