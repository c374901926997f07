// Where the rows of a tile lie, and the requests for the cache lines of those that come next.
#pragma once

#include "plugins/attention/cpu/kernels.h"

namespace tenon::attention_cpu {
namespace {

// K and V of head 0 at one position; head h lies h · head_bytes further.
struct KvAddress {
  std::byte* k;
  std::byte* v;
};
inline KvAddress address_of(const LayerTask& task, const BlockId* blocks, uint32_t position) {
  const uint32_t token = position % task.block_tokens;
  const auto block =
      static_cast<uint64_t>(static_cast<uint32_t>(blocks[position / task.block_tokens]));
  const auto at = [&](const KvPlane& plane) {
    return plane.base + block * plane.block_bytes + token * plane.token_bytes;
  };
  return {at(task.k_plane), at(task.v_plane)};
}

// The rows of one tile, and the runs of neighbouring rows that they form.
struct TileRows {
  struct Run {
    KvAddress first;
    uint32_t tokens;
  };
  const std::byte* k[kTileTokens];
  const std::byte* v[kTileTokens];
  Run runs[kTileTokens];
  uint32_t run_count;

  // Positions [low, high) of the tile at `start`. The others get the row at `low`: a row that may
  // be read, and whose products nobody uses.
  void find(const LayerTask& task, const BlockId* blocks, uint32_t start, uint32_t low,
            uint32_t high) {
    run_count = 0;
    for (uint32_t position = low; position < high;) {
      const uint32_t left = task.block_tokens - position % task.block_tokens;
      const uint32_t tokens = left < high - position ? left : high - position;
      Run& run = runs[run_count++];
      run = {address_of(task, blocks, position), tokens};
      for (uint32_t i = 0; i < tokens; ++i) {
        k[position - start + i] = run.first.k + i * task.k_plane.token_bytes;
        v[position - start + i] = run.first.v + i * task.v_plane.token_bytes;
      }
      position += tokens;
    }
    fill_around(low - start, high - start);
  }

  // The same along the path to `row`, which sees the entries before the tree and the rows
  // that lead to it. Without runs.
  void find_path(const LayerTask& task, const WorkItem& item, uint32_t row, uint32_t start,
                 uint32_t low, uint32_t high) {
    if (low < item.path_from) {
      find(task, item.blocks, start, low, high < item.path_from ? high : item.path_from);
    }
    const uint32_t first = low < item.path_from ? item.path_from : low;
    for (uint32_t entry = task.seen[row].own + 1; entry-- > first;) {
      if (entry < high) {
        const KvAddress at = address_of(task, item.blocks, task.slots[row]);
        k[entry - start] = at.k;
        v[entry - start] = at.v;
      }
      row = static_cast<uint32_t>(task.tree_parents[row]);
    }
    fill_around(low - start, high - start);
    run_count = 0;
  }

 private:
  void fill_around(uint32_t low, uint32_t high) {
    for (uint32_t i = 0; i < kTileTokens; ++i) {
      if (i >= low && i < high) continue;
      k[i] = k[low];
      v[i] = v[low];
    }
  }
};

// Cache lines of the rows that come next, asked for a few at a time all through the work on these:
// a core can wait for about as many as it asks for in the time of a few FMAs. Asked all at once
// they would hold it up, or, on some processors, be forgotten.
class Requests {
 public:
  // Rows of one head; `next` may be null: nothing is asked for.
  Requests(const LayerTask& task, const TileRows* next, uint32_t head)
      : next_(next),
        k_({head * task.k_plane.head_bytes, task.k_plane.token_bytes}),
        v_({head * task.v_plane.head_bytes, task.v_plane.token_bytes}) {
    if (next == nullptr) return;
    runs_left_ = (task.latent ? 1 : 2) * next->run_count;
    const uint64_t bytes = kTileTokens * (k_.token_bytes + (task.latent ? 0 : v_.token_bytes));
    all_runs_ = runs_left_;
    lines_ = static_cast<uint32_t>(bytes / 64) + runs_left_;
    advance();
  }
  // `count` lines after each other, and no function call in most cases: vectors stay in registers.
  [[gnu::always_inline]] void ask(uint32_t count) {
    if (at_ >= end_) return;
    if (at_ + 64 * count >= end_) return ask_across_runs(count);
    for (uint32_t i = 0; i < count; ++i) prefetch(at_ + 64 * i);
    at_ += 64 * count;
  }
  // The parts of a line in which paces are.
  static constexpr uint32_t kParts = 256;
  // How much to ask for in each of `steps` steps so that in all of them it is `eighths` of all.
  uint32_t pace(uint32_t eighths, uint32_t steps) const {
    return (lines_ * eighths * (kParts / 8) + steps - 1) / steps;
  }
  // A step: what is no whole line is kept for the next one.
  [[gnu::always_inline]] void ask_in_pace(uint32_t parts) {
    due_ += parts;
    ask(due_ / kParts);
    due_ %= kParts;
  }
  void ask_for_the_rest() { ask_across_runs(~0u); }

 private:
  struct Side {
    uint64_t head_offset;
    uint64_t token_bytes;
  };
  [[gnu::always_inline]] static void prefetch(uintptr_t line) {
    __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2);
  }
  [[gnu::noinline]] void ask_across_runs(uint32_t count) {
    while (at_ < end_ && count > 0) {
      const auto left = static_cast<uint32_t>((end_ - at_ + 63) / 64);
      const uint32_t now = left < count ? left : count;
      for (uint32_t i = 0; i < now; ++i) prefetch(at_ + 64 * i);
      at_ += 64 * now;
      count -= now;
      if (at_ >= end_ && runs_left_ > 0) advance();
    }
  }
  // K's runs, then V's where they are others.
  [[gnu::noinline]] void advance() {
    const uint32_t done = all_runs_ - runs_left_--;
    const bool is_k = done < next_->run_count;
    const TileRows::Run& run = next_->runs[is_k ? done : done - next_->run_count];
    const Side& side = is_k ? k_ : v_;
    const std::byte* first = (is_k ? run.first.k : run.first.v) + side.head_offset;
    end_ = reinterpret_cast<uintptr_t>(first + run.tokens * side.token_bytes);
    at_ = reinterpret_cast<uintptr_t>(first) / 64 * 64;
  }

  const TileRows* next_;
  Side k_;
  Side v_;
  uint32_t runs_left_ = 0;
  uint32_t all_runs_ = 0;  // the runs that there are
  uint32_t lines_ = 0;
  uint32_t due_ = 0;  // parts of a line
  uintptr_t at_ = 0;
  uintptr_t end_ = 0;
};

// Rows for `product`, between whose steps lines are asked for.
template <class Rows>
struct Asking : Rows {
  Requests* requests;
  uint32_t pace;
  Asking from(uint32_t row) const { return {Rows::from(row), requests, pace}; }
  Asking half(bool of_first) const { return {Rows::half(of_first), requests, pace}; }
  [[gnu::always_inline]] void between() const { requests->ask_in_pace(pace); }
};

}  // namespace
}  // namespace tenon::attention_cpu
