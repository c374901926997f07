// The members of `Attention` that multiply in bytes (bytes.h). The end of attend.h.
#pragma once

#include "plugins/attention/cpu/attend.h"

#ifdef __AVX512VNNI__

namespace tenon::attention_cpu {
namespace {

// Calls function(the number as a type).
template <class Function>
void with_queries(uint32_t count, const Function& function) {
  switch (count) {
    case 1:
      return function(Constant<1>());
    case 2:
      return function(Constant<2>());
    case 3:
      return function(Constant<3>());
    default:
      return function(Constant<4>());
  }
}

// K and V are put in order anew for every few queries: that takes other units
// of the processor than products do.
template <class E, class S>
void Attention<E, S>::attend_in_bytes(const TileRows& rows, uint32_t head, uint32_t first,
                                      uint32_t last, Requests& requests) {
  const uint64_t kv_head = item_.kv_head + head;
  const uint32_t base = head * queries_;
  const uint64_t k_offset = kv_head * task_.k_plane.head_bytes;
  const uint64_t v_offset = kv_head * task_.v_plane.head_bytes;
  // Half of what comes next is asked for with the scores, and what is left with the values, where a
  // step takes half as long. Several groups of queries ask for it earlier.
  const auto vectors_of = [](uint32_t dim) { return (dim + kByteColumns - 1) / kByteColumns; };
  const uint32_t k_steps = 2 * kTileTokens / kByteRows * vectors_of(task_.k_dim);
  const uint32_t v_steps = kTileTokens / 4 * vectors_of(task_.v_dim);
  const uint32_t k_pace = requests.pace(4, k_steps);
  const uint32_t v_pace = requests.pace(4, v_steps);
  const ByteRows k{.k = rows.k,
                   .v = rows.v,
                   .k_offset = k_offset,
                   .k_dim = task_.k_dim,
                   .k_scale_at = k_offset + scale_word_at<E>(task_.k_dim),
                   .v_scale_at = v_offset + scale_word_at<E>(task_.v_dim),
                   .scales = &scales_,
                   .requests = &requests,
                   .pace = k_pace};
  for (uint32_t i = first; i < last; i += kByteQueries) {
    with_queries(smaller(kByteQueries, last - i), [&](auto queries) {
      constexpr uint32_t kCount = decltype(queries)::kValue;
      const auto score = task_.k_dim % kByteColumns == 0
                             ? score_bytes<E, S::kQueryStride, kCount, true>
                             : score_bytes<E, S::kQueryStride, kCount, false>;
      score(q_ + (base + i) * S::kQueryStride, k, i == first, scores_ + i * kTileTokens);
    });
  }
  weigh_bytes(base, first, last, requests);
  for (uint32_t column = 0; column < task_.v_dim; column += kByteColumns) {
    const uint32_t bytes = element_bytes<E>(smaller(kByteColumns, task_.v_dim - column));
    const ByteColumns v{.rows = rows.v,
                        .offset = v_offset + element_bytes<E>(column),
                        .there = bytes == 64 ? ~__mmask64{0} : (__mmask64{1} << bytes) - 1,
                        .requests = &requests,
                        .pace = v_pace};
    const bool whole = bytes == element_bytes<E>(kByteColumns);
    for (uint32_t i = first; i < last; i += kByteQueries) {
      with_queries(smaller(kByteQueries, last - i), [&](auto queries) {
        constexpr uint32_t kCount = decltype(queries)::kValue;
        const auto add =
            whole ? add_values_in_bytes<E, kCount, true> : add_values_in_bytes<E, kCount, false>;
        add(scores_ + i * kTileTokens, v, this->template sees<kCount>(i), byte_softmax(base, i),
            range_sums_ + (base + i) * v_columns_ + column, v_columns_);
      });
    }
  }
  requests.ask_for_the_rest();
}

// Of queries [i, i + R) a bit each: whether it sees any of the tile.
template <class E, class S>
template <uint32_t R>
uint32_t Attention<E, S>::sees(uint32_t i) const {
  uint32_t bits = 0;
  for (uint32_t r = 0; r < R; ++r) bits |= (in_tile_[i + r].empty() ? 0u : 1u) << r;
  return bits;
}

template <class E, class S>
ByteSoftmax Attention<E, S>::byte_softmax(uint32_t base, uint32_t i) {
  return {range_maxima_ + base + i, range_weights_ + base + i, factors_ + i, byte_takes_ + i,
          least_sums_ + i};
}

template <class E, class S>
void Attention<E, S>::weigh_bytes(uint32_t base, uint32_t first, uint32_t last,
                                  Requests& requests) {
  ByteValues all;
  prepare_values<E>(scales_, {0, kTileTokens}, all);
  const bool plain = task_.slopes == nullptr && task_.soft_cap == 0.0f;
  for (uint32_t i = first; i < last; i += kByteQueries) {
    with_queries(smaller(kByteQueries, last - i), [&](auto queries) {
      constexpr uint32_t kCount = decltype(queries)::kValue;
      ByteTile tile{&scales_,
                    byte_queries_ + base + i,
                    {&all, &all, &all, &all},
                    this->template sees<kCount>(i),
                    &requests,
                    requests.pace(1, 2 * kByteQueries)};
      bool whole = plain;
      for (uint32_t r = 0; r < kCount; ++r) {
        const Span seen = in_tile_[i + r];
        whole = whole && seen.low == 0 && seen.high == kTileTokens;
      }
      float* scores = scores_ + i * kTileTokens;
      const ByteSoftmax softmax = byte_softmax(base, i);
      if (whole) return weigh_in_bytes<E, kCount, true>(tile, softmax, scores);
      ByteValues cut[kCount];
      for (uint32_t r = 0; r < kCount; ++r) {
        if (in_tile_[i + r].empty()) continue;
        finish_scores(base, i + r);
        if (in_tile_[i + r].low == 0 && in_tile_[i + r].high == kTileTokens) continue;
        prepare_values<E>(scales_, in_tile_[i + r], cut[r]);
        tile.values[r] = cut + r;
      }
      weigh_in_bytes<E, kCount, false>(tile, softmax, scores);
    });
  }
}

// Products of query i with the tile become scores.
template <class E, class S>
void Attention<E, S>::finish_scores(uint32_t base, uint32_t i) {
  float* scores = scores_ + i * kTileTokens;
  scale_products<E>(scales_, byte_queries_[base + i], scores);
  if (task_.slopes != nullptr) bias_scores(task_.soft_cap, slope_of(base + i), scores);
  (void)largest_score(task_.slopes == nullptr ? task_.soft_cap : 0.0f, scores, in_tile_[i]);
}

template <class E, class S>
void Attention<E, S>::order_sums(Span bounds) {
  for (uint32_t i = 0; i < all_queries(); ++i) {
    if (intersect(seen_by(i), bounds).empty()) continue;
    for (uint32_t column = 0; column < v_columns_; column += kByteColumns) {
      put_in_order<E>(range_sums_ + i * v_columns_ + column);
    }
  }
}

}  // namespace
}  // namespace tenon::attention_cpu

#endif
