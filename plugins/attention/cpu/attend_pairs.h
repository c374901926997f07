// The members of `Attention` that multiply in pairs of bf16 (pairs.h). The end of attend.h.
#pragma once

#include "plugins/attention/cpu/attend.h"

#ifdef __AVX512BF16__

namespace tenon::attention_cpu {
namespace {

// Rows of either kind as the cache has them. All queries meet a run of K, then a part of V's
// columns, while it is in the first cache.
template <class E, class S>
void Attention<E, S>::attend_in_pairs(const TileRows& rows, uint32_t head, uint32_t first,
                                      uint32_t last, Requests& requests) {
  const uint64_t kv_head = item_.kv_head + head;
  const uint32_t base = head * queries_;
  const uint64_t k_offset = kv_head * task_.k_plane.head_bytes;
  const uint32_t score_blocks = (last - first + kPairQueries - 1) / kPairQueries;
  const uint32_t score_steps = kTileTokens / kPairEntries * score_blocks *
                               ((task_.k_dim + kPairElements - 1) / kPairElements);
  const uint32_t pace = requests.pace(4, score_steps);
  for (uint32_t run = 0; run < kTileTokens; run += kPairRun) {
    for (uint32_t i = first; i < last; i += kPairQueries) {
      const auto make = score_pairs_of<S::kQueryStride>(smaller(kPairQueries, last - i));
      for (uint32_t entry = run; entry < run + kPairRun; entry += kPairEntries) {
        make(q_ + (base + i) * S::kQueryStride, rows.k + entry, k_offset, task_.k_dim,
             scores_ + i * kTileTokens + entry, requests, pace);
      }
    }
  }
  weigh(base, first, last);
  const uint64_t v_offset = kv_head * task_.v_plane.head_bytes;
  if (paired_) {
    add_pairs_of_values<true>(rows, base, first, last, v_offset, requests);
  } else {
    add_pairs_of_values<false>(rows, base, first, last, v_offset, requests);
  }
  requests.ask_for_the_rest();
}

template <class E, class S>
template <bool kPaired>
void Attention<E, S>::add_pairs_of_values(const TileRows& rows, uint32_t base, uint32_t first,
                                          uint32_t last, uint64_t offset, Requests& requests) {
  const uint32_t block = even_block(last - first);
  const uint32_t blocks = (last - first + block - 1) / block;
  const uint32_t pace =
      requests.pace(4, blocks * product_steps(block, v_columns_, kTileTokens / 2));
  for (uint32_t part = 0; part < v_columns_; part += kLatentPart) {
    const uint32_t columns = smaller(kLatentPart, v_columns_ - part);
    const Asking<RowPairs<kPaired>> values{
        {rows.v, offset + part * 2, task_.v_dim - part, true, true}, &requests, pace};
    for (uint32_t i = first; i < last; i += block) {
      add_block_of_pairs(values, base, i, smaller(block, last - i), part, columns);
    }
  }
}

// Pairs that all queries of a block see go together, those before and after query by query.
template <class E, class S>
template <class Rows>
void Attention<E, S>::add_block_of_pairs(const Rows& rows, uint32_t base, uint32_t first,
                                         uint32_t count, uint32_t column, uint32_t columns) {
  const auto add = [&](const Rows& from, uint32_t i, uint32_t queries, Span pairs) {
    product<kTileTokens, Rows::kEven>(
        scores_ + i * kTileTokens + pairs.low, queries, from.from(pairs.low), columns,
        pairs.high - pairs.low, range_sums_ + (base + i) * v_columns_ + column, v_columns_, true);
  };
  const auto add_alone = [&](uint32_t i, Span tokens) {
    if (tokens.empty()) return;
    const Span pairs{(tokens.low + 1) / 2, tokens.high / 2};
    if (tokens.low % 2 != 0) add(rows.half(false), i, 1, {pairs.low - 1, pairs.low});
    if (!pairs.empty()) add(rows, i, 1, pairs);
    if (tokens.high % 2 != 0) add(rows.half(true), i, 1, {pairs.high, pairs.high + 1});
  };
  Span common{0, kTileTokens};
  for (uint32_t i = first; i < first + count; ++i) common = intersect(common, in_tile_[i]);
  common = {(common.low + 1) / 2 * 2, common.high / 2 * 2};
  if (common.empty()) {
    for (uint32_t i = first; i < first + count; ++i) add_alone(i, in_tile_[i]);
    return;
  }
  for (uint32_t i = first; i < first + count; ++i) add_alone(i, {in_tile_[i].low, common.low});
  add(rows, first, count, {common.low / 2, common.high / 2});
  for (uint32_t i = first; i < first + count; ++i) add_alone(i, {common.high, in_tile_[i].high});
}

}  // namespace
}  // namespace tenon::attention_cpu

#endif
