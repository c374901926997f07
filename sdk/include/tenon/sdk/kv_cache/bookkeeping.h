// Small things that all KV managers need: how far a sequence reaches, a queue of moves, counters,
// and an error for the normal case that memory is short.
#pragma once

#include <tenon/host.h>
#include <tenon/kv_cache.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tenon::sdk {

// No memory now. Normal flow, so it costs no allocation.
inline Status out_of_kv() noexcept {
  static constexpr StatusRecord kRecord{StatusCode::out_of_kv, 21, "no free KV block left",
                                        [](const StatusRecord*) noexcept {}};
  return Status(&kRecord);
}

// How far a sequence's K/V reaches, and whether calls about it make sense.
//
//   0 … computed … planned_from … granted     planned_from = computed unless steps are in flight
struct KvProgress {
  uint32_t limit = 0;         // tokens that it may ever hold
  uint32_t computed = 0;      // tokens whose K/V are here and final
  uint32_t planned_from = 0;  // where the latest grant begins
  uint32_t granted = 0;       // slots, those of `computed` included
  uint64_t last_step = 0;     // that was planned with it

  // A grant for `step`: after what is computed, after what steps in flight compute, or once more
  // for the same step.
  Status check_grow(const KvRequest& request, uint64_t step) const;
  Status check_trim(SeqId seq, uint32_t tokens) const;
  Status check_resolve(const KvOutcome& outcome) const;

 private:
  static Status wrong(SeqId seq, const std::string& text);
};

// Moves in the order in which they must be carried out.
class MoveQueue {
 public:
  void reserve(size_t moves) { moves_.reserve(moves); }
  // The next `moves` pushes do not allocate.
  void make_room(size_t moves) {
    if (moves_.capacity() - moves_.size() < moves) {
      moves_.reserve(std::max(moves_.size() + moves, 2 * moves_.capacity()));
    }
  }
  void push(const KvMove& move) { moves_.push_back(move); }
  // As KVCacheManager::take_moves.
  void take(KvMovesOut& out);

 private:
  std::vector<KvMove> moves_;
  size_t taken_ = 0;
};

// What a manager did, for reports. Counted here and handed to the host once a step.
struct KvCounters {
  uint64_t hit_tokens = 0;       // found in the cache and held instead of computed
  uint64_t promised_tokens = 0;  // of them, waited for while another sequence computed them
  uint64_t evicted_blocks = 0;   // cached ones that were handed out
  uint64_t copied_blocks = 0;    // written by a copy: forks, contents found in part
  uint64_t swapped_out_blocks = 0;
  uint64_t swapped_in_blocks = 0;
  uint64_t kept_states = 0;      // after prefixes, to start from later
  uint64_t hash_collisions = 0;  // prefixes of one hash that had to be compared

  void flush(const HostServices& host);
};

}  // namespace tenon::sdk
