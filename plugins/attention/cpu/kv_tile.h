// Tiles read from the cache: K as columns, V as rows, and what quantised rows are scaled with.
#pragma once

#include "plugins/attention/cpu/kernels.h"
#include "plugins/attention/cpu/kv_rows.h"
#include "plugins/attention/cpu/product.h"
#include "plugins/attention/cpu/tile_rows.h"

namespace tenon::attention_cpu {
namespace {

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
  const uint32_t v_row = task.latent ? task.k_dim : task.v_dim;  // the row's elements, V's and more
  const uint64_t v_at = head * task.v_plane.head_bytes + kv_element_bytes(E::kType, v_row);
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
// The whole vector at word `at`; after the row's end zeros, which are not read.
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
void load_transposed(const std::byte* const* rows, uint64_t offset, uint32_t dim, float* to) {
  constexpr uint32_t kLanes = simd::kLanes;
  const uint32_t words = words_of<E>(dim);
  // Words whose vectors lie within the row.
  const uint32_t whole = E::kPerWord == 1 ? dim : element_bytes<E>(dim) / 4;
  for (uint32_t at = 0; at < words; at += kLanes) {
    float* column = to + at * (kWide ? E::kPerWord : 1) * kTileTokens;
    for (uint32_t group = 0; group < kTileTokens; group += kLanes) {
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

// Columns of K in words.
template <class E>
struct WordColumns {
  static constexpr uint32_t kStep = E::kPerWord;
  const float* first;
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
};

// Rows of V in the cache's type, read where they are: for few queries, that read them once.
template <class E>
struct CachedRows {
  static constexpr uint32_t kStep = 1;
  static constexpr bool kEven = true;
  const std::byte* const* rows;
  uint64_t offset;
  CachedRows from(uint32_t row) const { return {rows + row, offset}; }
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
};

// Rows [first, last) of V as f32, padded_v(dim) apart; `paired` only where dim allows it.
template <class E>
void load_rows(const std::byte* const* rows, uint64_t offset, uint32_t first, uint32_t last,
               uint32_t dim, bool paired, float* to) {
  const uint32_t stride = padded_v(dim);
  for (uint32_t i = first; i < last; ++i) {
    const std::byte* from = rows[i] + offset;
    float* row = to + i * stride;
    if constexpr (E::kPaired) {
      if (paired) {
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
