// K/V of prompts that other workers compute: asked for by content, and collected as it comes.
//
// A request that waits here has a hold on its K/V there, from its arrival on: a lease that goes on
// as long as somebody holds it. Whatever becomes of the other worker or of the way to it, each
// fetch is answered with the blocks that came, at the latest when nothing was heard of it for a
// lease's time.
//
// Threads: `hold` and `release` any; `fetch`, `take`, `abandon` and `wait_for_any` the step thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/tiers/tiers.h"
#include "core/transfer/import_link.h"
#include "core/transfer/wire.h"

namespace tenon {

struct ImportTotals {
  uint64_t received_blocks = 0;
  uint64_t received_bytes = 0;
  uint64_t found_tokens = 0;  // brought into the cache instead of computed
  uint64_t complete = 0;      // fetches that got all they asked for
  uint64_t partial = 0;       // … and those that did not
  uint64_t lost_links = 0;
  uint64_t holds = 0;
  uint64_t under_way_bytes = 0;
};

class Imports {
 public:
  struct Place {
    std::string address;
    TransferId transfer = 0;
    bool awaits = false;  // it may be known there only later
  };

  // `world` outlives it.
  Imports(const TierWorld& world, std::shared_ptr<KvTransport> transport, uint64_t budget_bytes,
          std::chrono::nanoseconds lease);
  ~Imports();
  Imports(const Imports&) = delete;
  Imports& operator=(const Imports&) = delete;

  void hold(const Place& place);
  void release(const Place& place);

  // Asks for blocks from `first` on; contents[i] is the digest after i + 1 blocks. Returns the
  // number of the answer, or 0 where too much is under way: ask again.
  uint64_t fetch(const Place& place, uint32_t first, const std::vector<ContentDigest>& contents);
  // What came, once nothing more will.
  std::unique_ptr<FoundKv> take(uint64_t id);
  void abandon(uint64_t id);
  bool wait_for_any(std::chrono::nanoseconds timeout);

  // Renews what is held, and gives up what nothing was heard of. Now and then. [one thread]
  void tick();
  void count_found(uint64_t tokens);
  ImportTotals totals() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Fetch {
    // A block that comes in parts.
    struct Growing {
      KvBlob blob;
      uint64_t came = 0;
    };
    Place place;
    const ImportLink* link = nullptr;
    uint32_t asked = 0;       // blocks
    uint64_t held_bytes = 0;  // of the budget
    Time heard;
    FoundKv found;
    std::vector<uint32_t> groups_there;           // [asked] of K/V
    std::unordered_map<size_t, Growing> growing;  // by their places in [asked][groups]
    bool is_over = false;
  };
  struct Worker {
    std::unique_ptr<ImportLink> link;
    std::unordered_map<TransferId, uint32_t> holds;
    Time renewed;
    std::string told;  // the last fault in the log
  };

  ImportLink& link_to(const std::string& address, Worker& worker);
  void renew(Worker& worker);
  void reach(const std::string& address, Worker& worker);
  void on_frame(const ImportLink& link, Frame frame);
  void on_broken(const ImportLink& link, const Status& why);
  void take_block(const ImportLink& link, Frame frame);
  bool take_part(Fetch& fetch, size_t place, uint64_t bytes, const Frame& frame, SharedBlob& blob);
  void end(Fetch& fetch);
  static Fetch* with(std::unordered_map<uint64_t, Fetch>& fetches, uint64_t id,
                     const ImportLink& link);
  uint64_t bytes_of(uint32_t blocks) const;

  const TierWorld& world_;
  const std::shared_ptr<KvTransport> transport_;
  const uint64_t budget_bytes_;
  const std::chrono::nanoseconds lease_;
  uint64_t largest_bytes_ = 0;  // of a group's block, or a state
  uint64_t block_bytes_ = 0, state_bytes_ = 0;
  uint32_t block_groups_ = 0;  // with K/V

  mutable std::mutex mutex_;
  std::condition_variable answered_;
  uint64_t last_id_ = 0;
  std::unordered_map<uint64_t, Fetch> fetches_;
  std::map<std::string, Worker> workers_;
  std::vector<std::unique_ptr<ImportLink>> broken_;  // until their threads are done
  bool stop_ = false;
  ImportTotals totals_;
};

// A request's hold.
class KvImport {
 public:
  KvImport(std::shared_ptr<Imports> imports, Imports::Place place)
      : imports_(std::move(imports)), place_(std::move(place)) {
    imports_->hold(place_);
  }
  ~KvImport() { release(); }
  KvImport(const KvImport&) = delete;
  KvImport& operator=(const KvImport&) = delete;

  const Imports::Place& place() const { return place_; }
  bool is_held() const { return is_held_; }
  // It is needed no more: freed there. [step]
  void release() {
    if (std::exchange(is_held_, false)) imports_->release(place_);
  }

 private:
  const std::shared_ptr<Imports> imports_;
  const Imports::Place place_;
  bool is_held_ = true;
};

}  // namespace tenon
