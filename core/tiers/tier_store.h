// TierStore: one tier, a place where K/V lies by its content key. It may lose what it was given at
// any time, and may take as long as it needs; what it gives back is what was written, or nothing.
//
// Threads: one thread calls, the tiers' own (tiers.h). `totals` may be asked for by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/tiers/kv_blob.h"
#include "core/tiers/kv_key.h"

namespace tenon {

struct KvStoreTotals {
  uint64_t held_bytes = 0;     // as far as this process knows
  uint64_t evicted_bytes = 0;  // that went to make room
  uint64_t damaged = 0;        // entries that were not what was written, and are gone now
  uint64_t faults = 0;         // writes and reads that failed
};

// An entry that may be asked for, and its size.
struct KvWanted {
  KvKey key;
  uint64_t bytes = 0;
};

class TierStore {
 public:
  virtual ~TierStore() = default;

  virtual std::string_view kind() const = 0;  // "host", "disk", or a plugin's id
  // Whether it is worth reading; may be wrong either way.
  virtual bool has(const KvKey& key) = 0;
  // The `bytes` bytes of an entry; nothing where there is none of that size.
  virtual SharedBlob read(const KvKey& key, uint64_t bytes) = 0;
  // Whether others compute meanwhile: then reads take as little of the processor's time as they
  // can, even if they take longer.
  virtual void spare_processor(bool /*spares*/) {}
  // Makes room first. Errors: why it could not be written.
  virtual Status write(const KvKey& key, const SharedBlob& blob) = 0;
  virtual KvStoreTotals totals() const = 0;  // [any thread]

  // For stores that are far away. `has`, and then `read`, are most likely asked for these next, in
  // this order: what a store begins with, it waits for only once. Replaces earlier ones.
  virtual void look_ahead(std::span<const KvWanted> /*wanted*/) {}
  // Goes on for up to `wait_ns` with what the store began, if anything is left to do; returns
  // whether something is.
  virtual bool tend(int64_t /*wait_ns*/) { return false; }
};

}  // namespace tenon
