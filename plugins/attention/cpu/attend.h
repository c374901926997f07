// Attention of some rows over some ranges of one sequence, for some of its KV heads.
//
// Tiles start at multiples of kTileTokens, within ranges that start at multiples of kRangeTokens;
// ranges are merged in rising order. What a row adds up, and in which order, follows from its own
// visible positions [low, high) alone: tiles and positions outside are skipped for that row, not
// multiplied by zero, so nothing that lies there can matter.
//
// Heads are walked inside a tile: they lie side by side in a block, so memory is read in long runs.
#pragma once

#include "plugins/attention/cpu/byte_values.h"
#include "plugins/attention/cpu/kernels.h"
#include "plugins/attention/cpu/kv_tile.h"
#include "plugins/attention/cpu/pairs.h"
#include "plugins/attention/cpu/product.h"
#include "plugins/attention/cpu/queries.h"
#include "plugins/attention/cpu/softmax.h"

namespace tenon::attention_cpu {
namespace {

constexpr Span range_span(uint32_t range) {
  return {range * kRangeTokens, (range + 1) * kRangeTokens};
}

// The queries of a pass: for each of the item's KV heads, rows x query heads [first_head,
// first_head + heads) of the group, row-major; `queries_` of them a KV head.
template <class E, class S>
class Attention {
 public:
  Attention(const LayerTask& task, const WorkItem& item, uint32_t first_head, uint32_t heads,
            float* scratch)
      : task_(task),
        item_(item),
        first_head_(first_head),
        heads_(heads),
        queries_((item.last_row - item.first_row) * heads),
        k_columns_(padded_k(task.k_dim)),
        v_columns_(S::kBytes ? padded_bytes(task.v_dim) : padded_v(task.v_dim)),
        paired_(!S::kBytes && paired_columns<E>(task.v_dim)) {
    tile_ = scratch;
    const uint32_t columns = S::kLatent ? kLatentPart : larger(k_columns_, v_columns_);
    q_ = tile_ + (S::kBytes ? 0 : kTileTokens * columns);
    scores_ = q_ + S::kQueries * S::kQueryStride;
    range_sums_ = scores_ + S::kQueries * kTileTokens;
    sums_ = range_sums_ + S::kQueries * v_columns_;
  }

  void run(float* partials) {
    all_ = {~0u, 0};
    for (uint32_t i = 0; i < queries_; ++i) {
      seen_[i] = visible(task_, row_of(i));
      all_ = {smaller(all_.low, seen_[i].low), larger(all_.high, seen_[i].high)};
    }
    all_ = intersect(all_, {item_.first_range * kRangeTokens, item_.last_range * kRangeTokens});
    for (uint32_t i = 0; i < all_queries(); ++i) started_[i] = false;
    load_queries();
    for (uint32_t range = item_.first_range; range < item_.last_range; ++range) {
      const Span whole = intersect(all_, range_span(range));
      if (whole.empty()) continue;
      attend_range(range, whole);
      if (item_.partial == kWhole) {
        merge_range(range);
      } else {
        keep_range(range, partials);
      }
    }
    if (item_.partial != kWhole) return;
    for (uint32_t i = 0; i < all_queries(); ++i) {
      const float weight = task_.sinks == nullptr
                               ? weights_[i]
                               : with_sink(weights_[i], maxima_[i], task_.sinks[head_of(i)]);
      write_out(sums_ + i * v_columns_, weight, task_.v_dim, paired_, out_of(i));
    }
  }

 private:
  uint32_t all_queries() const { return item_.kv_heads * queries_; }
  uint32_t group() const { return task_.query_heads / task_.kv_heads; }
  uint32_t row_of(uint32_t query) const { return item_.first_row + query % queries_ / heads_; }
  uint64_t head_of(uint32_t query) const {
    return uint64_t{item_.kv_head + query / queries_} * group() + first_head_ +
           query % queries_ % heads_;
  }
  float* out_of(uint32_t query) const {
    return task_.out + (uint64_t{row_of(query)} * task_.query_heads + head_of(query)) * task_.v_dim;
  }
  const Span& seen_by(uint32_t query) const { return seen_[query % queries_]; }

  void load_queries() {
    for (uint32_t i = 0; i < all_queries(); ++i) {
      query_sums_[i] = load_query<E>(task_, row_of(i), head_of(i), q_ + i * S::kQueryStride);
      if constexpr (S::kPairs) round_query(q_ + i * S::kQueryStride, k_columns_);
#ifdef __AVX512VNNI__
      if constexpr (S::kBytes) {
        byte_queries_[i] = make_codes<E>(q_ + i * S::kQueryStride, task_.k_dim);
      }
#endif
    }
  }

  void attend_range(uint32_t range, Span whole) {
    const Span bounds = range_span(range);
    for (uint32_t i = 0; i < all_queries(); ++i) {
      if (intersect(seen_by(i), bounds).empty()) continue;
      __builtin_memset(range_sums_ + i * v_columns_, 0, v_columns_ * sizeof(float));
      range_maxima_[i] = -__builtin_inff();
      range_weights_[i] = 0;
    }
    for (uint32_t start = whole.low / kTileTokens * kTileTokens; start < whole.high;
         start += kTileTokens) {
      const Span tile{start, start + kTileTokens};
      if (tile.high <= item_.path_from) {
        attend_queries(tile, 0, queries_, rows_of_tile(start), true);
        continue;
      }
      for (uint32_t i = 0; i < queries_; i += heads_) {
        if (!intersect(seen_[i], tile).empty()) {
          attend_queries(tile, i, i + heads_, rows_of_path(tile, i), false);
        }
      }
    }
#ifdef __AVX512VNNI__
    if constexpr (S::kBytes) order_sums(bounds);
#endif
  }

  // Queries [first, last) over one tile, all heads. `next_tile`: the one after it comes next.
  void attend_queries(Span tile, uint32_t first, uint32_t last, const TileRows& rows,
                      bool next_tile) {
    // Queries that see nothing of the tile are left out at both ends.
    while (first < last && intersect(seen_[first], tile).empty()) ++first;
    while (first < last && intersect(seen_[last - 1], tile).empty()) --last;
    if (first == last) return;
    tile_start_ = tile.low;
    for (uint32_t i = first; i < last; ++i) {
      const Span seen = intersect(seen_[i], tile);
      in_tile_[i] = seen.empty() ? Span{} : Span{seen.low - tile.low, seen.high - tile.low};
    }
    for (uint32_t head = 0; head < item_.kv_heads; ++head) {
      const bool last_head = head + 1 == item_.kv_heads;
      const TileRows* next = nullptr;
      if (next_tile) next = last_head ? next_rows(tile.high) : &rows;
      Requests requests(task_, next, item_.kv_head + (last_head ? 0 : head + 1));
#ifdef __AVX512BF16__
      if constexpr (S::kPairs) attend_in_pairs(rows, head, first, last, requests);
#endif
#ifdef __AVX512VNNI__
      if constexpr (S::kBytes) attend_in_bytes(rows, head, first, last, requests);
#endif
      if constexpr (!S::kPairs && S::kLatent) {
        attend_latent_tile(rows, head, first, last, requests);
      } else if constexpr (!S::kPairs && !S::kBytes) {
        attend_tile(rows, head, first, last, requests);
      }
    }
  }

  // The tile at `start`, or null when this item will not read it.
  const TileRows* next_rows(uint32_t start) {
    const bool shared = start + kTileTokens <= item_.path_from;
    return !shared || intersect(all_, {start, start + kTileTokens}).empty() ? nullptr
                                                                            : &rows_of_tile(start);
  }
  // Two tiles are known at a time, the current one and the next.
  const TileRows& rows_of_tile(uint32_t start) {
    TileRows& rows = rows_[start / kTileTokens % 2];
    uint32_t& known = rows_start_[start / kTileTokens % 2];
    if (known == start) return rows;
    known = start;
    const Span present = intersect(all_, {start, start + kTileTokens});
    rows.find(task_, item_.blocks, start, present.low, present.high);
    present_[start / kTileTokens % 2] = {present.low - start, present.high - start};
    return rows;
  }
  // A tile as the row of query `i` reads it.
  const TileRows& rows_of_path(Span tile, uint32_t i) {
    const Span present = intersect(seen_[i], tile);
    rows_[kPathRows].find_path(task_, item_, row_of(i), tile.low, present.low, present.high);
    present_[kPathRows] = {present.low - tile.low, present.high - tile.low};
    return rows_[kPathRows];
  }

  // Queries [first, last) of KV head `head` of the item.
  void attend_tile(const TileRows& rows, uint32_t head, uint32_t first, uint32_t last,
                   Requests& requests) {
    const uint64_t kv_head = item_.kv_head + head;
    const uint32_t base = head * queries_;
    const bool few = last - first <= kMaxRows;
    if constexpr (E::kScaled) load_scales<E>(task_, rows, kv_head, scales_);

    const uint64_t k_offset = kv_head * task_.k_plane.head_bytes;
    const float* q = q_ + (base + first) * S::kQueryStride;
    float* scores = scores_ + first * kTileTokens;
    if (few) {
      load_transposed<E, false>(rows.k, k_offset, task_.k_dim, tile_);
      const Asking<WordColumns<E>> columns{
          {tile_},
          &requests,
          pace_of_half(requests, last - first, kTileTokens, words_of<E>(task_.k_dim))};
      product<S::kQueryStride, true>(q, last - first, columns, kTileTokens,
                                     words_of<E>(task_.k_dim), scores, kTileTokens, false);
    } else {
      load_transposed<E, true>(rows.k, k_offset, task_.k_dim, tile_);
      requests.ask_for_the_rest();
      for (uint32_t i = first; i < last; i += kMaxRows) {
        product<S::kQueryStride, true>(q_ + (base + i) * S::kQueryStride,
                                       smaller(kMaxRows, last - i), WideRows{tile_, kTileTokens},
                                       kTileTokens, task_.k_dim, scores_ + i * kTileTokens,
                                       kTileTokens, false);
      }
    }
    weigh(base, first, last);
    add_values(rows, base, kv_head, first, last, few, requests);
    requests.ask_for_the_rest();
  }

  // The same over latent rows. They are wide, and many queries read them: parts of the tile are
  // widened into the first cache, where all queries read them. A score takes up part after part, so
  // its sum is that of the whole row.
  void attend_latent_tile(const TileRows& rows, uint32_t head, uint32_t first, uint32_t last,
                          Requests& requests) {
    const uint64_t kv_head = item_.kv_head + head;
    const uint32_t base = head * queries_;
    if constexpr (E::kScaled) load_scales<E>(task_, rows, kv_head, scales_);
    const uint64_t offset = kv_head * task_.k_plane.head_bytes;
    const uint32_t block = even_block(last - first);
    const uint32_t blocks = (last - first + block - 1) / block;
    const Asking<WideRows> columns_of_k{
        {tile_, kTileTokens},
        &requests,
        pace_of_half(requests, block, kTileTokens, blocks * task_.k_dim)};
    const uint32_t v_pace = pace_of_half(requests, block, task_.v_dim, blocks * kTileTokens);
    for (uint32_t part = 0; part < task_.k_dim; part += kLatentPart) {
      const uint32_t width = smaller(kLatentPart, task_.k_dim - part);
      load_transposed<E, true>(rows.k, offset + part * E::kBits / 8, width, tile_);
      for (uint32_t i = first; i < last; i += block) {
        product<S::kQueryStride, true>(q_ + (base + i) * S::kQueryStride + part,
                                       smaller(block, last - i), columns_of_k, kTileTokens, width,
                                       scores_ + i * kTileTokens, kTileTokens, part > 0);
      }
    }
    weigh(base, first, last);
    const Span present = present_[&rows - rows_];
    for (uint32_t part = 0; part < task_.v_dim; part += kLatentPart) {
      const uint32_t width = smaller(kLatentPart, task_.v_dim - part);
      load_rows<E>(rows.k, offset + part * E::kBits / 8, present.low, present.high, width, paired_,
                   tile_);
      const uint32_t columns = padded_v(width);
      for (uint32_t i = first; i < last; i += block) {
        const Asking<WideRows> values{{tile_, columns}, &requests, v_pace};
        add_block(values, base, i, smaller(block, last - i), part, columns);
      }
    }
    add_least(base, first, last);
    requests.ask_for_the_rest();
  }

#ifdef __AVX512BF16__
  // The same in pairs of bf16, over rows of either kind: attend_pairs.h.
  void attend_in_pairs(const TileRows& rows, uint32_t head, uint32_t first, uint32_t last,
                       Requests& requests);
  template <bool kPaired>
  void add_pairs_of_values(const TileRows& rows, uint32_t base, uint32_t first, uint32_t last,
                           uint64_t offset, Requests& requests);
  template <class Rows>
  void add_block_of_pairs(const Rows& rows, uint32_t base, uint32_t first, uint32_t count,
                          uint32_t column, uint32_t columns);
#endif

#ifdef __AVX512VNNI__
  // The same in bytes: attend_bytes.h.
  void attend_in_bytes(const TileRows& rows, uint32_t head, uint32_t first, uint32_t last,
                       Requests& requests);
  template <uint32_t R>
  uint32_t sees(uint32_t i) const;
  ByteSoftmax byte_softmax(uint32_t base, uint32_t i);
  void weigh_bytes(uint32_t base, uint32_t first, uint32_t last, Requests& requests);
  void finish_scores(uint32_t base, uint32_t i);
  void order_sums(Span bounds);
#endif

  // For each step of a product, or of several, that asks for half of all lines.
  static uint32_t pace_of_half(const Requests& requests, uint32_t queries, uint32_t columns,
                               uint32_t count) {
    return requests.pace(4, product_steps(queries, columns, count));
  }

  // Queries for one product, so that products are alike: a small last one would use few registers.
  static uint32_t even_block(uint32_t queries) {
    const uint32_t blocks = (queries + kMaxRows - 1) / kMaxRows;
    return (queries + blocks - 1) / blocks;
  }

  // Scores over the tile become weights. One step for all queries, then the next: the chains of one
  // query's operations are long, and those of several run side by side.
  void weigh(uint32_t base, uint32_t first, uint32_t last) {
    const float cap = task_.slopes == nullptr ? task_.soft_cap : 0.0f;  // else capped already
    for (uint32_t i = first; i < last; ++i) {
      float* scores = scores_ + i * kTileTokens;
      if constexpr (E::kScaled) scale_scores<E>(scales_, query_sums_[base + i], scores);
      if (task_.slopes != nullptr) bias_scores(task_.soft_cap, slope_of(base + i), scores);
      found_[i] = in_tile_[i].empty() ? -__builtin_inff() : largest_score(cap, scores, in_tile_[i]);
    }
    float* maxima = range_maxima_ + base;
    float* weights = range_weights_ + base;
    raise_maxima(found_ + first, maxima + first, weights + first, factors_ + first, last - first);
    for (uint32_t i = first; i < last; ++i) {
      if (in_tile_[i].empty()) continue;
      float* scores = scores_ + i * kTileTokens;
      if constexpr (S::kPairs) {
        weights[i] += weigh_in_pairs(scores, maxima[i]);
      } else {
        weights[i] += weigh_scores(scores, maxima[i]);
      }
      // Maxima rise seldom: most factors are 1.
      if (factors_[i] != 1.0f) {
        multiply(range_sums_ + (base + i) * v_columns_, factors_[i], v_columns_);
      }
      if constexpr (E::kScaled) scale_weights(scores, i);
    }
  }

  // Distances are whole numbers of entries, exact in f32.
  Slope slope_of(uint32_t query) const {
    const auto own = static_cast<float>(task_.seen[row_of(query)].own);
    return {task_.slopes[head_of(query)] * kLog2OfE, static_cast<float>(tile_start_) - own};
  }

  // V's scales become part of the weights of query i.
  void scale_weights(float* scores, uint32_t i) {
    F32 sum = simd::zero();
#pragma GCC unroll 16
    for (uint32_t v = 0; v < kTileVectors; ++v) {
      float* at = scores + v * simd::kLanes;
      const F32 weight = simd::load(at);
      simd::store(at, simd::mul(weight, simd::load(scales_.v_scale + v * simd::kLanes)));
      if constexpr (E::kShifted) {
        const F32 least = simd::load(scales_.v_least + v * simd::kLanes);
        sum = simd::fma(weight, only_seen(least, v, in_tile_[i], simd::zero()), sum);
      }
    }
    if constexpr (E::kShifted) least_sums_[i] = simd::reduce_add(sum);
  }

  // Positions that all queries of a block see go together, those before and after query by query.
  void add_values(const TileRows& rows, uint32_t base, uint64_t kv_head, uint32_t first,
                  uint32_t last, bool few, Requests& requests) {
    const uint64_t offset = kv_head * task_.v_plane.head_bytes;
    if (few && task_.v_dim % (2 * simd::kLanes) == 0) {
      const Asking<CachedRows<E>> values{
          {rows.v, offset},
          &requests,
          pace_of_half(requests, last - first, task_.v_dim, kTileTokens)};
      add_block(values, base, first, last - first, 0, task_.v_dim);
    } else {
      const Span present = present_[&rows - rows_];
      load_rows<E>(rows.v, offset, present.low, present.high, task_.v_dim, paired_, tile_);
      for (uint32_t i = first; i < last; i += kMaxRows) {
        add_block(WideRows{tile_, v_columns_}, base, i, smaller(kMaxRows, last - i), 0, v_columns_);
      }
    }
    add_least(base, first, last);
  }
  void add_least(uint32_t base, uint32_t first, uint32_t last) {
    if constexpr (E::kShifted) {
      for (uint32_t i = first; i < last; ++i) {
        if (in_tile_[i].empty()) continue;
        float* sums = range_sums_ + (base + i) * v_columns_;
        for (uint32_t d = 0; d < v_columns_; d += simd::kLanes) {
          simd::store(sums + d, simd::add(simd::load(sums + d), simd::set1(least_sums_[i])));
        }
      }
    }
  }
  // `rows` are columns [column, column + columns) of V.
  template <class Rows>
  void add_block(const Rows& rows, uint32_t base, uint32_t first, uint32_t count, uint32_t column,
                 uint32_t columns) {
    const auto add_rows = [&](uint32_t i, uint32_t queries, Span tokens) {
      if (tokens.empty()) return;
      product<kTileTokens, Rows::kEven>(scores_ + i * kTileTokens + tokens.low, queries,
                                        rows.from(tokens.low), columns, tokens.high - tokens.low,
                                        range_sums_ + (base + i) * v_columns_ + column, v_columns_,
                                        true);
    };
    Span common{0, kTileTokens};
    for (uint32_t i = first; i < first + count; ++i) common = intersect(common, in_tile_[i]);
    if (common.empty()) {
      for (uint32_t i = first; i < first + count; ++i) add_rows(i, 1, in_tile_[i]);
      return;
    }
    for (uint32_t i = first; i < first + count; ++i) {
      add_rows(i, 1, {in_tile_[i].low, common.low});
    }
    add_rows(first, count, common);
    for (uint32_t i = first; i < first + count; ++i) {
      add_rows(i, 1, {common.high, in_tile_[i].high});
    }
  }

  void merge_range(uint32_t range) {
    for (uint32_t i = 0; i < all_queries(); ++i) {
      if (intersect(seen_by(i), range_span(range)).empty()) continue;
      const float* from = range_sums_ + i * v_columns_;
      float* to = sums_ + i * v_columns_;
      if (started_[i]) {
        merge({to, maxima_ + i, weights_ + i}, from, range_maxima_[i], range_weights_[i],
              v_columns_);
        continue;
      }
      started_[i] = true;
      __builtin_memcpy(to, from, v_columns_ * sizeof(float));
      maxima_[i] = range_maxima_[i];
      weights_[i] = range_weights_[i];
    }
  }

  void keep_range(uint32_t range, float* partials) {
    const uint64_t size = partial_floats(task_.v_dim);
    const uint64_t of_head = uint64_t{item_.last_row - item_.first_row} * group();
    for (uint32_t i = 0; i < all_queries(); ++i) {
      const uint32_t j = i % queries_;
      const uint64_t query = uint64_t{j / heads_} * group() + first_head_ + j % heads_;
      const uint64_t at = item_.partial + i / queries_ * item_.partial_stride + range * of_head;
      float* to = partials + (at + query) * size;
      const uint32_t columns = padded_v(task_.v_dim);
      __builtin_memcpy(to, range_sums_ + i * v_columns_, columns * sizeof(float));
      to[columns] = range_maxima_[i];
      to[columns + 1] = range_weights_[i];
    }
  }

  const LayerTask& task_;
  const WorkItem& item_;
  const uint32_t first_head_;
  const uint32_t heads_;
  const uint32_t queries_;
  const uint32_t k_columns_;
  const uint32_t v_columns_;
  const bool paired_;
  Span all_;
  Span seen_[S::kQueries];     // [queries_]
  Span in_tile_[S::kQueries];  // of the current tile, relative to it
  uint32_t tile_start_ = 0;
  bool started_[S::kQueries];
  static constexpr uint32_t kPathRows = 2;
  TileRows rows_[3];  // two shared tiles, and one as a row of a tree sees it
  Span present_[3];
  uint32_t rows_start_[2] = {~0u, ~0u};
  TileScales scales_;
  float found_[S::kQueries];  // the largest score of the tile
  // Where vectors of a few are written, there is room for a whole one.
  float factors_[S::kQueries + 4];     // what sums are multiplied with to take up the tile
  float query_sums_[S::kQueries];      // Σ q, for i4
  float least_sums_[S::kQueries + 4];  // Σ weight · least of V over the tile, for i4
  float range_maxima_[S::kQueries + 4];
  float range_weights_[S::kQueries + 4];
  float maxima_[S::kQueries];
  float weights_[S::kQueries];
#ifdef __AVX512VNNI__
  static constexpr uint32_t kByteMost = S::kBytes ? S::kQueries : 1;
  ByteQuery byte_queries_[kByteMost];
  float byte_takes_[kByteMost + kByteQueries];
#endif
  float* tile_;        // K as columns, then V as rows where they are widened first
  float* q_;           // [all queries][kQueryStride]
  float* scores_;      // [queries_][kTileTokens]
  float* range_sums_;  // [all queries][v_columns]
  float* sums_;        // the same
};

}  // namespace
}  // namespace tenon::attention_cpu

#include "plugins/attention/cpu/attend_bytes.h"
#include "plugins/attention/cpu/attend_pairs.h"
