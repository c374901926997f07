// K/V that was computed here for somebody else, until it is fetched or its lease expires.
//
//   open ─ put … put ─ complete ─ (renewed by whoever waits for it) ─ release
//                          └ nobody renews it: expires
//
// A transfer is what one request's K/V goes by. Blocks of the same content lie here once, for as
// many transfers as have them; those whose layers are still being computed, once for each. What
// does not fit is not kept, and computed where it is missing.
//
// Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/tiers/kv_key.h"
#include "core/tiers/tier_store.h"
#include "core/transfer/wire.h"

namespace tenon {

struct ExportTotals {
  uint64_t held_bytes = 0;
  uint64_t leases = 0;          // transfers that are known
  uint64_t expired = 0;         // … and were, until nobody renewed them
  uint64_t refused_blocks = 0;  // for which there was no room
  uint64_t sent_blocks = 0;
  uint64_t sent_bytes = 0;
  uint64_t early_bytes = 0;  // of them, of blocks whose later layers were not computed yet
};

// A block that is being computed: bytes before `ready` stay as they are, and may be read by any
// thread; one thread fills in the others.
struct KvPart {
  explicit KvPart(uint64_t size) : bytes(size) {}
  KvBlob bytes;
  std::atomic<uint64_t> ready = 0;
};

class Exports {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Exports(uint64_t memory_bytes, std::chrono::nanoseconds lease);

  // The transfer is computed here from now on. One that somebody awaits already is the same.
  void open(TransferId id);
  // Whether the block lies here for this transfer: from now on, where another one has it whole.
  bool has(TransferId id, const KvKey& key);
  // False: there is no room, or no such transfer any more. Nothing of it is kept from then on.
  bool put(TransferId id, const KvKey& key, KvBlob&& blob);
  // The same for a block whose bytes come one after the other: where to put them, also if it began
  // already. Null: there is no room, no such transfer any more, or the block lies here (`has`).
  std::shared_ptr<KvPart> begin(TransferId id, const KvKey& key, uint64_t bytes);
  // All of its bytes are there. False: there is no such part any more.
  bool finish(TransferId id, const KvKey& key);
  // Nothing more comes; its lease begins.
  void complete(TransferId id);
  // Frees it: it was fetched, or will not be computed.
  void end(TransferId id);

  // Somebody fetches it, maybe before it is computed. False: it is not known, and not awaited.
  bool ask(TransferId id, bool awaits);
  // Their leases begin anew; returns those that are computed here, or were.
  std::vector<TransferId> renew(std::span<const TransferId> ids);
  enum class State : uint8_t { gone, open, complete };
  State state(TransferId id) const;
  std::shared_ptr<const KvBlob> find(TransferId id, const KvKey& key) const;
  std::shared_ptr<const KvPart> find_part(TransferId id, const KvKey& key) const;
  void count_sent(uint64_t bytes);
  void count_early(uint64_t bytes);  // in place of `count_sent`

  // Frees what nobody renewed.
  void expire(Time now = std::chrono::steady_clock::now());
  // Grows with everything that a sender may wait for.
  uint64_t changes() const;
  void note_change();
  void wait_for_change(uint64_t seen, std::chrono::nanoseconds timeout) const;
  ExportTotals totals() const;

 private:
  struct Block {
    std::shared_ptr<const KvBlob> blob;
    uint32_t holders = 0;
  };
  struct Transfer {
    std::unordered_set<KvKey, KvKeyHash> keys;
    std::unordered_map<KvKey, std::shared_ptr<KvPart>, KvKeyHash> parts;  // not among them
    bool is_open = false;  // it is, or was, computed here
    bool is_complete = false;
    bool is_cut = false;  // a block found no room
    Time expires = Time::max();
  };
  using Transfers = std::unordered_map<TransferId, Transfer>;
  bool shares(Transfer& transfer, const KvKey& key);
  bool has_room(Transfer& transfer, uint64_t bytes);
  void drop(Transfers::iterator transfer);

  const uint64_t memory_bytes_;
  const std::chrono::nanoseconds lease_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t changes_ = 0;
  std::unordered_map<KvKey, Block, KvKeyHash> blocks_;
  Transfers transfers_;
  ExportTotals totals_;
};

// A request's part in it: nothing more comes once it is gone, and nothing is kept of what was given
// up before it was complete.
class KvExport {
 public:
  KvExport(std::shared_ptr<Exports> exports, TransferId id);
  ~KvExport();
  KvExport(const KvExport&) = delete;
  KvExport& operator=(const KvExport&) = delete;

  TransferId id() const { return id_; }
  // Where it lies: another engine's, where one listens for several.
  const std::shared_ptr<Exports>& place() const { return exports_; }
  bool has(const KvKey& key) { return exports_->has(id_, key); }
  bool put(const KvKey& key, KvBlob&& blob) { return exports_->put(id_, key, std::move(blob)); }
  std::shared_ptr<KvPart> begin(const KvKey& key, uint64_t bytes) {
    return exports_->begin(id_, key, bytes);
  }
  bool finish(const KvKey& key) { return exports_->finish(id_, key); }
  void complete();

 private:
  const std::shared_ptr<Exports> exports_;
  const TransferId id_;
  bool is_complete_ = false;  // [step]
};

}  // namespace tenon
