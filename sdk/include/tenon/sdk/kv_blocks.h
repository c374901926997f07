// What KV managers have in common: a pool of counted blocks, a queue of moves, and an error for
// the normal case that memory is short.
#pragma once

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

// Blocks 0 … n-1 with reference counts. Taking and dropping are O(1) and do not allocate. A block
// whose last reference goes while a step that was planned with it is still running is parked until
// `step_done`.
class BlockPool {
 public:
  void reset(uint32_t blocks) {
    references_.assign(blocks, 0);
    filled_.assign(blocks, 0);
    last_step_.assign(blocks, 0);
    free_.clear();
    free_.reserve(blocks);
    parked_.clear();
    parked_.reserve(blocks);
    filled_total_ = 0;
    done_step_ = 0;
    for (uint32_t block = blocks; block > 0; --block) {
      free_.push_back(static_cast<BlockId>(block - 1));
    }
  }

  uint32_t size() const { return static_cast<uint32_t>(references_.size()); }
  uint32_t free_count() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t parked_count() const { return static_cast<uint32_t>(parked_.size()); }
  uint32_t references(BlockId block) const { return references_[at(block)]; }
  bool shared(BlockId block) const { return references(block) > 1; }

  // Only while free_count() > 0. The block has one reference and holds nothing.
  BlockId take() {
    const BlockId block = free_.back();
    free_.pop_back();
    references_[at(block)] = 1;
    last_step_[at(block)] = 0;
    return block;
  }
  void share(BlockId block) { ++references_[at(block)]; }
  // `last_step` is the latest step that the owner was planned with.
  void drop(BlockId block, uint64_t last_step) {
    uint64_t& last = last_step_[at(block)];
    last = std::max(last, last_step);
    if (--references_[at(block)] > 0) return;
    set_filled(block, 0);
    (last <= done_step_ ? free_ : parked_).push_back(block);
  }
  void step_done(uint64_t step_id) {
    done_step_ = std::max(done_step_, step_id);
    size_t kept = 0;
    for (BlockId block : parked_) {
      if (last_step_[at(block)] <= done_step_) {
        free_.push_back(block);
      } else {
        parked_[kept++] = block;
      }
    }
    parked_.resize(kept);
  }

  // How many of a block's slots hold K/V; the pool keeps the sum.
  void set_filled(BlockId block, uint32_t tokens) {
    filled_total_ = filled_total_ - filled_[at(block)] + tokens;
    filled_[at(block)] = tokens;
  }
  uint64_t filled_total() const { return filled_total_; }

  // Holds counts against `expected` references, one number a block, and against themselves.
  Status check(const std::vector<uint32_t>& expected) const {
    std::vector<uint8_t> idle(references_.size(), 0);
    for (const std::vector<BlockId>* list : {&free_, &parked_}) {
      for (BlockId block : *list) {
        if (block < 0 || at(block) >= references_.size()) return broken(block, "is no block");
        if (idle[at(block)]++ != 0) return broken(block, "is free twice");
      }
    }
    uint64_t filled = 0;
    for (size_t i = 0; i < references_.size(); ++i) {
      const auto block = static_cast<BlockId>(i);
      if (references_[i] != expected[i]) {
        return broken(block, "has " + std::to_string(references_[i]) + " references counted and " +
                                 std::to_string(expected[i]) + " in tables");
      }
      if ((references_[i] == 0) != (idle[i] == 1)) {
        return broken(block, references_[i] == 0 ? "is lost" : "is in use and free");
      }
      filled += filled_[i];
    }
    if (filled == filled_total_) return {};
    return Status::error(StatusCode::internal, "the sum of filled slots is wrong");
  }

 private:
  static size_t at(BlockId block) { return static_cast<size_t>(block); }
  static Status broken(BlockId block, const std::string& how) {
    return Status::error(StatusCode::internal, "block " + std::to_string(block) + " " + how);
  }

  std::vector<uint32_t> references_;  // [blocks]
  std::vector<uint32_t> filled_;      // [blocks]
  std::vector<uint64_t> last_step_;   // [blocks]
  std::vector<BlockId> free_;         // taken from the back
  std::vector<BlockId> parked_;
  uint64_t filled_total_ = 0;
  uint64_t done_step_ = 0;
};

// Moves in the order in which they must be carried out.
class MoveQueue {
 public:
  void reserve(size_t moves) { moves_.reserve(moves); }
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

}  // namespace tenon::sdk
