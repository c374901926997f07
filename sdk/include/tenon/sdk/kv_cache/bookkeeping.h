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
struct KvProgress {
  uint32_t limit = 0;      // tokens that it may ever hold
  uint32_t computed = 0;   // tokens whose K/V are here
  uint32_t granted = 0;    // slots, those of `computed` included
  uint64_t last_step = 0;  // that was planned with it

  Status check_grow(SeqId seq, uint32_t base, uint32_t at_least, uint32_t at_most) const {
    if (base == computed && at_least > 0 && at_least <= at_most && at_least <= limit - computed) {
      return {};
    }
    return wrong(seq, "asked for " + std::to_string(at_least) + " to " + std::to_string(at_most) +
                          " tokens behind " + std::to_string(base) + " – it has " +
                          std::to_string(computed) + " and may reach " + std::to_string(limit));
  }
  Status check_resolve(SeqId seq, uint32_t base, std::span<const uint32_t> kept,
                       uint32_t now_computed) const {
    bool sound = base == computed && now_computed == base + kept.size() && now_computed <= granted;
    for (size_t i = 0; sound && i < kept.size(); ++i) {
      sound = kept[i] < granted - base && (i == 0 || kept[i] > kept[i - 1]);
    }
    if (sound) return {};
    return wrong(seq, "cannot keep " + std::to_string(kept.size()) + " tokens behind " +
                          std::to_string(base) + " – it has " + std::to_string(computed) +
                          " and slots for " + std::to_string(granted));
  }

 private:
  static Status wrong(SeqId seq, const std::string& text) {
    return Status::error(StatusCode::invalid_argument,
                         "sequence " + std::to_string(seq) + " " + text);
  }
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
  void take(KvMovesOut& out) {
    const size_t count = std::min(moves_.size() - taken_, out.moves.size());
    std::copy_n(moves_.begin() + static_cast<ptrdiff_t>(taken_), count, out.moves.begin());
    out.count = static_cast<uint32_t>(count);
    taken_ += count;
    if (taken_ < moves_.size()) return;
    moves_.clear();
    taken_ = 0;
  }

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

  void flush(const HostServices& host) {
    const std::pair<std::string_view, uint64_t> all[] = {
        {"hit_tokens", hit_tokens},
        {"promised_tokens", promised_tokens},
        {"evicted_blocks", evicted_blocks},
        {"copied_blocks", copied_blocks},
        {"swapped_out_blocks", swapped_out_blocks},
        {"swapped_in_blocks", swapped_in_blocks},
    };
    for (const auto& [name, amount] : all) {
      if (amount > 0 && host.count != nullptr) host.count(host.context, name, amount);
    }
    *this = {};
  }
};

}  // namespace tenon::sdk
