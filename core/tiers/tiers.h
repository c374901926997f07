// The tiers of a pipeline: stores of K/V below its KV cache, the nearest first, and the thread that
// reads and writes them. Whoever computes hands blocks over and asks for them again, and never
// waits for a disk.
//
//   put   a block goes down: to every tier
//   seek  what a prompt's first blocks are, as far as some tier has them: they come up into memory
//         here, and `take` hands them over
//
// At most `budget_bytes` are under way between the cache and the tiers. What would be more is not
// kept, or not brought up; then it is computed.
//
// Threads: one thread calls, the step thread; `totals` any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/tiers/tier_store.h"

namespace tenon {

// One KV group whose blocks are kept.
struct TierGroup {
  GroupId group = 0;
  uint64_t bytes = 0;  // of a block, or of a state
  bool is_state = false;
};

// What a pipeline's K/V follow from.
struct TierWorld {
  std::string text;                   // model, numerics id, geometry: as root_digest has it
  std::vector<std::string> adapters;  // by their numbers, less 1: what tells their weights
  std::vector<TierGroup> groups;
  uint32_t block_tokens = 1;  // of all groups' blocks, and between states
};

// The blocks [first, end) of a prompt.
struct FoundKv {
  uint32_t first = 0;
  uint32_t end = 0;
  std::vector<std::vector<SharedBlob>> blocks;  // [end - first][groups], empty for states
  // After so many blocks, of all groups of states. [ends][groups], empty for the others.
  std::unordered_map<uint32_t, std::vector<SharedBlob>> states;
  uint64_t bytes = 0;
  bool is_fetched = false;  // from another worker
};

struct TierTotals {
  struct Store {
    std::string kind;
    KvStoreTotals totals;
    uint64_t read_bytes = 0;
    uint64_t written_bytes = 0;
  };
  std::vector<Store> stores;
  uint64_t found_tokens = 0;    // brought into the cache instead of computed
  uint64_t refused_blocks = 0;  // not kept, since too much was under way
  uint64_t late = 0;            // prompts that were computed, since theirs came too late
};

class Tiers {
 public:
  Tiers(TierWorld world, std::vector<std::unique_ptr<TierStore>> stores, uint64_t budget_bytes);
  // Writes what was put before.
  ~Tiers();
  Tiers(const Tiers&) = delete;
  Tiers& operator=(const Tiers&) = delete;

  const TierWorld& world() const { return world_; }

  // Whether it was put already, as far as is known.
  bool has(const KvKey& key) const;
  // False: too much is under way. `blob` is taken otherwise.
  bool put(const KvKey& key, KvBlob&& blob);
  // Looks for blocks from `first` on; contents[i] is the digest after i + 1 blocks.
  // Returns the number by which to ask for the answer, never 0.
  uint64_t seek(uint32_t first, std::vector<ContentDigest> contents);
  // While others generate: so many bytes more may be read of the blocks that are sought; states,
  // which are few, are read as they are. What was not read of earlier ones counts once more at
  // most.
  void allow(uint64_t bytes);
  // From now on, as many as there are.
  void allow_all();
  // What `seek` found, once it is here; a seek without an answer yet has none.
  std::unique_ptr<FoundKv> take(uint64_t id);
  // Its answer is of no use any more.
  void abandon(uint64_t id);
  // True as soon as some answer is there, false after `timeout`.
  bool wait_for_any(std::chrono::nanoseconds timeout);
  // Everything put so far is written, and every seek answered.
  void settle();

  void count_found(uint64_t tokens) { found_tokens_ += tokens; }
  void count_late() { ++late_; }
  TierTotals totals() const;

 private:
  struct Seek {
    uint64_t id = 0;
    uint32_t first = 0;
    std::vector<ContentDigest> contents;
  };
  struct Put {
    KvKey key;
    SharedBlob blob;
  };
  void work();
  bool tend_stores();
  void announce(const Seek& seek);
  std::unique_ptr<FoundKv> find(const Seek& seek);
  bool find_block(const Seek& seek, uint32_t block, FoundKv& found);
  bool find_states(const Seek& seek, uint32_t end, FoundKv& found);
  bool has_all(const ContentDigest& content, bool states);
  SharedBlob read(const KvKey& key, uint64_t bytes, FoundKv& found);
  bool may_read() const;
  void await_allowance(uint64_t bytes);
  void write_next(std::unique_lock<std::mutex>& lock);
  void write(const Put& put);
  void forget(const KvKey& key);

  const TierWorld world_;
  const std::vector<std::unique_ptr<TierStore>> stores_;
  const uint64_t budget_bytes_;
  bool has_blocks_ = false, has_states_ = false;

  mutable std::mutex mutex_;
  std::condition_variable work_there_, answered_, settled_;
  uint64_t last_seek_ = 0;
  std::deque<Seek> seeks_;
  std::deque<Put> puts_;
  bool busy_ = false, stop_ = false;
  bool stores_busy_ = false;        // some store may have work of its own left
  uint64_t current_ = 0;            // the seek at hand
  bool current_abandoned_ = false;  // … whose answer nobody wants
  std::unordered_map<uint64_t, std::unique_ptr<FoundKv>> answers_;
  std::unordered_set<KvKey, KvKeyHash> present_;
  uint64_t under_way_bytes_ = 0;
  bool limited_ = false;
  int64_t allowed_bytes_ = 0;  // where limited; the last block may be read beyond it
  uint64_t refused_ = 0;
  std::vector<uint64_t> read_bytes_, written_bytes_;  // [stores]
  std::atomic<uint64_t> found_tokens_ = 0, late_ = 0;
  std::thread thread_;
};

}  // namespace tenon
