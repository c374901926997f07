// The cache's side: rows of K and V in its element type, stored from f32 and read back as tiles.
#pragma once

#include "plugins/attention/cpu/kernels.h"
#include "plugins/attention/cpu/product.h"

namespace tenon::attention_cpu {
namespace {

// K and V rows of one head, walked from one position to the next.
class TokenWalk {
 public:
  TokenWalk(const LayerTask& task, const BlockId* blocks, uint32_t head, uint32_t position)
      : task_(task),
        blocks_(blocks + position / task.block_tokens),
        head_(head),
        left_(task.block_tokens - position % task.block_tokens) {
    enter_block(position % task.block_tokens);
  }
  std::byte* k() const { return k_; }
  std::byte* v() const { return v_; }
  // Only while there is a next position.
  void next() {
    k_ += task_.k_plane.token_bytes;
    v_ += task_.v_plane.token_bytes;
    if (--left_ > 0) return;
    ++blocks_;
    left_ = task_.block_tokens;
    enter_block(0);
  }

 private:
  void enter_block(uint64_t token) {
    k_ = at(task_.k_plane, token);
    v_ = at(task_.v_plane, token);
  }
  std::byte* at(const KvPlane& plane, uint64_t token) const {
    return plane.base + static_cast<uint64_t>(static_cast<uint32_t>(*blocks_)) * plane.block_bytes +
           head_ * plane.head_bytes + token * plane.token_bytes;
  }

  const LayerTask& task_;
  const BlockId* blocks_;
  uint64_t head_;
  uint32_t left_;  // positions of this block, the current one included
  std::byte* k_ = nullptr;
  std::byte* v_ = nullptr;
};

struct F32Elements {
  static constexpr uint32_t kBytes = 4;
  [[gnu::always_inline]] static F32 load(const std::byte* from) { return simd::load(from); }
  [[gnu::always_inline]] static void store(std::byte* to, F32 value) {
    simd::store(reinterpret_cast<float*>(to), value);
  }
};
struct F16Elements {
  static constexpr uint32_t kBytes = 2;
  [[gnu::always_inline]] static F32 load(const std::byte* from) { return simd::load_f16(from); }
  [[gnu::always_inline]] static void store(std::byte* to, F32 value) { simd::store_f16(to, value); }
};
struct Bf16Elements {
  static constexpr uint32_t kBytes = 2;
  [[gnu::always_inline]] static F32 load(const std::byte* from) { return simd::load_bf16(from); }
  [[gnu::always_inline]] static void store(std::byte* to, F32 value) {
    simd::store_bf16(to, value);
  }
};

// `dim` f32 into the cache's type, not a byte more.
template <class E>
void store_row(const float* from, uint32_t dim, std::byte* to) {
  uint32_t i = 0;
  for (; i + simd::kLanes <= dim; i += simd::kLanes) {
    E::store(to + i * E::kBytes, simd::load(from + i));
  }
  if (i == dim) return;
  alignas(64) std::byte rest[simd::kLanes * 4];
  E::store(rest, simd::load_first(from + i, dim - i));
  __builtin_memcpy(to + i * E::kBytes, rest, (dim - i) * E::kBytes);
}

// One vector at element `at` of a row of `dim`; elements behind the end are zero and not read.
template <class E>
[[gnu::always_inline]] inline F32 load_within(const std::byte* row, uint32_t at, uint32_t dim) {
  if (at + simd::kLanes <= dim) return E::load(row + at * E::kBytes);
  alignas(64) std::byte rest[simd::kLanes * 4] = {};
  __builtin_memcpy(rest, row + at * E::kBytes, (dim - at) * E::kBytes);
  return E::load(rest);
}

// Where the positions of one tile lie: K rows, then V rows.
struct TileRows {
  const std::byte* k[kTileTokens];
  const std::byte* v[kTileTokens];
};

// Cache lines of the next tile, asked for a few at a time all through the work on this one: a core
// can wait for about as many as it asks for in the time of a few FMAs, and asked all at once they
// would hold it up.
class Requests {
 public:
  // `next` may be null: nothing is asked for.
  Requests(const TileRows* next, uint32_t row_bytes)
      : rows_(next == nullptr ? nullptr : next->k),
        row_bytes_(row_bytes),
        row_(next == nullptr ? kRows : 0),
        lines_(kRows * ((row_bytes + 63) / 64)) {}
  uint32_t lines() const { return lines_; }
  [[gnu::always_inline]] void ask() {
    if (row_ == kRows) return;
    __builtin_prefetch(rows_[row_] + at_, 0, 2);
    at_ += 64;
    if (at_ < row_bytes_) return;
    at_ = 0;
    ++row_;
  }
  void ask(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) ask();
  }
  void ask_for_the_rest() {
    while (row_ < kRows) ask();
  }

 private:
  static constexpr uint32_t kRows = 2 * kTileTokens;
  const std::byte* const* rows_;
  uint32_t row_bytes_;
  uint32_t row_;
  uint32_t lines_;
  uint32_t at_ = 0;
};

// Rows of B as f32 with requests between them.
struct AskingRows : WideRows {
  Requests* requests;
  [[gnu::always_inline]] void between() const { requests->ask(); }
};

// Rows of V in the cache's type, read where they are: for few queries, that read them once.
template <class E>
struct CachedRows {
  const std::byte* const* rows;
  Requests* requests;
  [[gnu::always_inline]] F32 load(uint64_t row, uint32_t column) const {
    return E::load(rows[row] + column * E::kBytes);
  }
  [[gnu::always_inline]] void between() const { requests->ask(); }
};

// Rows of V as f32: to[i] for i in [first, last), padded_v(dim) apart.
template <class E>
void load_rows(const std::byte* const* rows, uint32_t first, uint32_t last, uint32_t dim,
               float* to) {
  const uint32_t stride = padded_v(dim);
  const uint32_t whole = dim / simd::kLanes * simd::kLanes;
  for (uint32_t i = first; i < last; ++i) {
    const std::byte* from = rows[i];
    float* row = to + i * stride;
    for (uint32_t d = 0; d < whole; d += simd::kLanes) {
      simd::store(row + d, E::load(from + d * E::kBytes));
    }
    for (uint32_t d = whole; d < stride; d += simd::kLanes) {
      simd::store(row + d, d < dim ? load_within<E>(from, d, dim) : simd::zero());
    }
  }
}

// A quarter of a tile's lines is asked for while K is transposed: half of the lines of as many
// rows.
inline constexpr uint32_t kRequestsPerBlock = simd::kLanes / 2;

// All kTileTokens rows of K as columns: to[d][i].
template <class E>
void load_transposed(const std::byte* const* rows, uint32_t dim, float* to, Requests& requests) {
  for (uint32_t group = 0; group < kTileTokens; group += simd::kLanes) {
    for (uint32_t d = 0; d < dim; d += simd::kLanes) {
      requests.ask(kRequestsPerBlock);
      F32 block[simd::kLanes];
#pragma GCC unroll 16
      for (uint32_t i = 0; i < simd::kLanes; ++i) {
        block[i] = load_within<E>(rows[group + i], d, dim);
      }
      simd::transpose(block);
#pragma GCC unroll 16
      for (uint32_t i = 0; i < simd::kLanes; ++i) {
        simd::store(to + (d + i) * kTileTokens + group, block[i]);
      }
    }
  }
}

// bf16 is transposed in pairs, which halves the shuffles.
template <>
void load_transposed<Bf16Elements>(const std::byte* const* rows, uint32_t dim, float* to,
                                   Requests& requests) {
  constexpr uint32_t kChunk = 2 * simd::kLanes;
  for (uint32_t group = 0; group < kTileTokens; group += simd::kLanes) {
    for (uint32_t d = 0; d < dim; d += kChunk) {
      requests.ask(kRequestsPerBlock);
      F32 block[simd::kLanes];
      if (d + kChunk <= dim) {
#pragma GCC unroll 16
        for (uint32_t i = 0; i < simd::kLanes; ++i) {
          block[i] = simd::load(rows[group + i] + d * 2);
        }
      } else {
        for (uint32_t i = 0; i < simd::kLanes; ++i) {
          alignas(64) std::byte rest[kChunk * 2] = {};
          __builtin_memcpy(rest, rows[group + i] + d * 2, (dim - d) * 2);
          block[i] = simd::load(rest);
        }
      }
      simd::transpose(block);
#pragma GCC unroll 16
      for (uint32_t i = 0; i < simd::kLanes; ++i) {
        float* column = to + (d + 2 * i) * kTileTokens + group;
        simd::store(column, simd::widen_low(block[i]));
        simd::store(column + kTileTokens, simd::widen_high(block[i]));
      }
    }
  }
}

}  // namespace
}  // namespace tenon::attention_cpu
