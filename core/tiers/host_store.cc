#include "core/tiers/host_store.h"

#include <string>

namespace tenon {

SharedBlob HostStore::read(const KvKey& key, uint64_t bytes) {
  const auto found = places_.find(key);
  if (found == places_.end() || found->second->second.size() != bytes) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void HostStore::drop_last() {
  const uint64_t bytes = entries_.back().second.size();
  places_.erase(entries_.back().first);
  entries_.pop_back();
  const std::lock_guard lock(mutex_);
  totals_.held_bytes -= bytes;
  totals_.evicted_bytes += bytes;
}

Status HostStore::write(const KvKey& key, const SharedBlob& blob) {
  if (places_.contains(key)) return {};
  if (blob.size() > quota_bytes_) {
    return failed("an entry of " + std::to_string(blob.size()) +
                  " bytes does not fit into the tier \"host\", which has " +
                  std::to_string(quota_bytes_) + " – raise its memory");
  }
  while (totals_.held_bytes + blob.size() > quota_bytes_) drop_last();
  entries_.emplace_front(key, blob);
  places_.emplace(key, entries_.begin());
  const std::lock_guard lock(mutex_);
  totals_.held_bytes += blob.size();
  return {};
}

KvStoreTotals HostStore::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

}  // namespace tenon
