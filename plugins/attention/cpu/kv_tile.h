// Tiles: where the rows of kTileTokens positions lie, K as columns, V as rows, and the requests for
// the next tile's cache lines.
#pragma once

#include "plugins/attention/cpu/kernels.h"
#include "plugins/attention/cpu/kv_rows.h"
#include "plugins/attention/cpu/product.h"

namespace tenon::attention_cpu {
namespace {

// K and V of head 0 at one position; head h lies h · head_bytes behind.
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
    for (uint32_t i = 0; i < kTileTokens; ++i) {
      if (i >= low - start && i < high - start) continue;
      k[i] = k[low - start];
      v[i] = v[low - start];
    }
  }
};

// Cache lines of the rows that come next, asked for a few at a time all through the work on these:
// a core can wait for about as many as it asks for in the time of a few FMAs, and asked all at once
// they would hold it up.
class Requests {
 public:
  // Rows of one head; `next` may be null: nothing is asked for.
  Requests(const LayerTask& task, const TileRows* next, uint32_t head)
      : next_(next),
        k_({head * task.k_plane.head_bytes, task.k_plane.token_bytes}),
        v_({head * task.v_plane.head_bytes, task.v_plane.token_bytes}) {
    if (next == nullptr) return;
    runs_left_ = 2 * next->run_count;
    const uint64_t bytes = kTileTokens * (k_.token_bytes + v_.token_bytes);
    lines_ = static_cast<uint32_t>(bytes / 64) + runs_left_;
    advance();
  }
  // About how many there are.
  uint32_t lines() const { return lines_; }
  [[gnu::always_inline]] void ask() {
    if (at_ >= end_) return;
    __builtin_prefetch(reinterpret_cast<const void*>(at_), 0, 2);
    at_ += 64;
    if (at_ >= end_ && runs_left_ > 0) advance();
  }
  void ask(uint32_t count) {
    while (at_ < end_ && count > 0) {
      const auto left = static_cast<uint32_t>((end_ - at_ + 63) / 64);
      const uint32_t now = left < count ? left : count;
      for (uint32_t i = 0; i < now; ++i) {
        __builtin_prefetch(reinterpret_cast<const void*>(at_ + 64 * i), 0, 2);
      }
      at_ += 64 * now;
      count -= now;
      if (at_ >= end_ && runs_left_ > 0) advance();
    }
  }
  void ask_for_the_rest() { ask(~0u); }

 private:
  struct Side {
    uint64_t head_offset;
    uint64_t token_bytes;
  };
  // K's runs, then V's.
  [[gnu::noinline]] void advance() {
    const uint32_t done = 2 * next_->run_count - runs_left_--;
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
  uint32_t lines_ = 0;
  uintptr_t at_ = 0;
  uintptr_t end_ = 0;
};

// What turns a tile's quantised rows back into numbers, position by position.
struct TileScales {
  alignas(64) float k_scale[kTileTokens];
  alignas(64) float k_least[kTileTokens];
  alignas(64) float v_scale[kTileTokens];
  alignas(64) float v_least[kTileTokens];
};
template <class E>
void load_scales(const LayerTask& task, const TileRows& rows, uint32_t head, TileScales& to) {
  const uint64_t k_at = head * task.k_plane.head_bytes + kv_element_bytes(E::kType, task.k_dim);
  const uint64_t v_at = head * task.v_plane.head_bytes + kv_element_bytes(E::kType, task.v_dim);
  for (uint32_t i = 0; i < kTileTokens; ++i) {
    to.k_scale[i] = read_bf16(rows.k[i] + k_at);
    if constexpr (E::kShifted) to.k_least[i] = read_bf16(rows.k[i] + k_at + 2);
  }
  for (uint32_t i = 0; i < kTileTokens; ++i) {
    to.v_scale[i] = read_bf16(rows.v[i] + v_at);
    if constexpr (E::kShifted) to.v_least[i] = read_bf16(rows.v[i] + v_at + 2);
  }
}

// --- K as columns --------------------------------------------------------------------------------

// Vectors of a transposed row of K: words for bf16, i8 and i4, f32 otherwise.
template <class E>
constexpr uint32_t words_of(uint32_t dim) {
  return E::kPerWord == 1 ? dim : (element_bytes<E>(dim) + 3) / 4;
}
// The whole vector at word `at`; behind the row's end zeros, which are not read.
template <class E, bool kWhole>
[[gnu::always_inline]] inline F32 load_words(const std::byte* row, uint32_t at, uint32_t dim) {
  if constexpr (E::kPerWord == 1) {
    return kWhole ? E::load(row + at * (E::kBits / 8)) : load_within<E>(row, at, dim);
  } else {
    if constexpr (kWhole) return simd::load(row + at * 4);
    const uint32_t bytes = element_bytes<E>(dim);
    alignas(64) std::byte rest[simd::kLanes * 4] = {};
    if (at * 4 < bytes) {
      const uint32_t left = bytes - at * 4;
      __builtin_memcpy(rest, row + at * 4, left < sizeof(rest) ? left : sizeof(rest));
    }
    return simd::load(rest);
  }
}

// Columns from word `at` on: kWords = kLanes of kLanes rows; kLanes / 2 of twice as many rows; or,
// 0, as many as there are, at most kLanes.
template <class E, bool kWide, uint32_t kWords>
[[gnu::always_inline]] inline void transpose_block(const std::byte* const* rows, uint64_t offset,
                                                   uint32_t at, uint32_t dim, uint32_t words,
                                                   float* column) {
  constexpr uint32_t kLanes = simd::kLanes;
  constexpr bool kHalves = kWords == kLanes / 2;
  F32 block[kLanes];
#pragma GCC unroll 16
  for (uint32_t i = 0; i < kLanes; ++i) {
    if constexpr (kHalves) {
      block[i] = simd::load_halves(rows[i] + offset + at * 4, rows[kLanes + i] + offset + at * 4);
    } else {
      block[i] = load_words<E, kWords == kLanes>(rows[i] + offset, at, dim);
    }
  }
  simd::transpose(block);
#pragma GCC unroll 16
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint32_t word = kHalves ? i % (kLanes / 2) : i;
    if (kWords == 0 && at + word >= words) break;
    float* to = column + (kHalves ? i / (kLanes / 2) * kLanes : 0);
    if constexpr (kWide) {
      each<E::kPerWord>([&](auto j) __attribute__((always_inline)) {
        simd::store(to + (word * E::kPerWord + j.kValue) * kTileTokens,
                    E::template element<j.kValue>(block[i]));
      });
    } else {
      simd::store(to + word * kTileTokens, block[i]);
    }
  }
}

// All kTileTokens rows of K as columns: words as they are (kWide false), to[word][i], or their
// elements as f32, to[d][i].
template <class E, bool kWide>
void load_transposed(const std::byte* const* rows, uint64_t offset, uint32_t dim, float* to,
                     Requests& requests) {
  constexpr uint32_t kLanes = simd::kLanes;
  const uint32_t words = words_of<E>(dim);
  // Words whose vectors lie within the row.
  const uint32_t whole = E::kPerWord == 1 ? dim : element_bytes<E>(dim) / 4;
  // A quarter of the lines is asked for here.
  const uint32_t blocks = kTileTokens / kLanes * ((words + kLanes - 1) / kLanes);
  const uint32_t asks = requests.lines() / 4 / blocks;
  for (uint32_t at = 0; at < words; at += kLanes) {
    float* column = to + at * (kWide ? E::kPerWord : 1) * kTileTokens;
    for (uint32_t group = 0; group < kTileTokens; group += kLanes) {
      requests.ask(asks);
      if (at + kLanes <= whole) {
        transpose_block<E, kWide, kLanes>(rows + group, offset, at, dim, words, column + group);
      } else if (E::kPerWord > 1 && words - at == kLanes / 2 && words == whole) {
        transpose_block<E, kWide, kLanes / 2>(rows + group, offset, at, dim, words, column + group);
        group += kLanes;
      } else {
        transpose_block<E, kWide, 0>(rows + group, offset, at, dim, words, column + group);
      }
    }
  }
}

// --- rows for `product` --------------------------------------------------------------------------

// Columns of K in words, with requests between them.
template <class E>
struct WordColumns {
  static constexpr uint32_t kStep = E::kPerWord;
  const float* first;
  Requests* requests;
  template <uint32_t V>
  [[gnu::always_inline]] void load(uint64_t row, uint32_t column, F32 (&words)[V]) const {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < V; ++v) {
      words[v] = simd::load(first + row * kTileTokens + column + v * simd::kLanes);
    }
  }
  template <int j>
  [[gnu::always_inline]] static F32 element(F32 words) {
    return E::template element<j>(words);
  }
  [[gnu::always_inline]] void between() const {
    requests->ask();
  }
};

// Rows of V in the cache's type, read where they are: for few queries, that read them once.
template <class E>
struct CachedRows {
  static constexpr uint32_t kStep = 1;
  static constexpr bool kEven = true;
  const std::byte* const* rows;
  uint64_t offset;
  Requests* requests;
  CachedRows from(uint32_t row) const { return {rows + row, offset, requests}; }
  template <uint32_t V>
  [[gnu::always_inline]] void load(uint64_t row, uint32_t column, F32 (&values)[V]) const {
    const std::byte* from = rows[row] + offset + column * E::kBits / 8;
    if constexpr (E::kPaired && V % 2 == 0) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < V; v += 2) {
        E::load_pair(from + v * simd::kLanes * E::kBits / 8, values[v], values[v + 1]);
      }
    } else if constexpr (!E::kPaired) {
#pragma GCC unroll 4
      for (uint32_t v = 0; v < V; ++v) values[v] = E::load(from + v * simd::kLanes * E::kBits / 8);
    }
  }
  template <int>
  [[gnu::always_inline]] static F32 element(F32 values) {
    return values;
  }
  [[gnu::always_inline]] void between() const {
    requests->ask();
  }
};

// Rows [first, last) of V as f32, padded_v(dim) apart.
template <class E>
void load_rows(const std::byte* const* rows, uint64_t offset, uint32_t first, uint32_t last,
               uint32_t dim, float* to) {
  const uint32_t stride = padded_v(dim);
  for (uint32_t i = first; i < last; ++i) {
    const std::byte* from = rows[i] + offset;
    float* row = to + i * stride;
    if constexpr (E::kPaired) {
      if (paired_columns<E>(dim)) {
        for (uint32_t d = 0; d < dim; d += 2 * simd::kLanes) {
          F32 even;
          F32 odd;
          E::load_pair(from + d * E::kBits / 8, even, odd);
          simd::store(row + d, even);
          simd::store(row + d + simd::kLanes, odd);
        }
        continue;
      }
    }
    for (uint32_t d = 0; d < stride; d += simd::kLanes) {
      simd::store(row + d, load_within<E>(from, d, dim));
    }
  }
}

}  // namespace
}  // namespace tenon::attention_cpu
