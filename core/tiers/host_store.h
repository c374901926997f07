// The tier in this process's own memory: entries up to a quota, the one not used for longest goes
// first.
#pragma once

#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/tiers/tier_store.h"

namespace tenon {

class HostStore final : public TierStore {
 public:
  explicit HostStore(uint64_t quota_bytes) : quota_bytes_(quota_bytes) {}

  std::string_view kind() const override { return "host"; }
  bool has(const KvKey& key) override { return places_.contains(key); }
  SharedBlob read(const KvKey& key, uint64_t bytes) override;
  Status write(const KvKey& key, const SharedBlob& blob) override;
  KvStoreTotals totals() const override;

 private:
  void drop_last();

  const uint64_t quota_bytes_;
  std::list<std::pair<KvKey, SharedBlob>> entries_;  // the latest used first
  std::unordered_map<KvKey, decltype(entries_)::iterator, KvKeyHash> places_;
  mutable std::mutex mutex_;
  KvStoreTotals totals_;
};

}  // namespace tenon
