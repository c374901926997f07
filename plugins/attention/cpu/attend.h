// Attention of some rows over some ranges of one sequence and KV head.
//
// Online softmax (Milakov and Gimelshein, 2018) over tiles that start at multiples of kTileTokens,
// within ranges that start at multiples of kRangeTokens; ranges are merged in rising order. What a
// row adds up, and in which order, follows from its own visible positions [low, high) alone: tiles
// and positions outside are skipped for that row, not multiplied by zero, so nothing that lies
// there can matter.
#pragma once

#include "plugins/attention/cpu/kernels.h"
#include "plugins/attention/cpu/kv_tile.h"
#include "plugins/attention/cpu/product.h"

namespace tenon::attention_cpu {
namespace {

constexpr uint32_t smaller(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}
constexpr uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

struct Span {
  uint32_t low = 0;
  uint32_t high = 0;
  bool empty() const { return low >= high; }
};
constexpr Span intersect(Span a, Span b) {
  return {larger(a.low, b.low), smaller(a.high, b.high)};
}
inline Span visible(const LayerTask& task, uint32_t row) {
  const uint32_t high = task.slots[row] + 1;
  const bool cut = task.window_tokens != 0 && high > task.window_tokens;
  return {cut ? high - task.window_tokens : 0, high};
}
constexpr Span range_span(uint32_t range) {
  return {range * kRangeTokens, (range + 1) * kRangeTokens};
}

// A softmax under way: out = sum / weight once it is finished.
struct SoftmaxState {
  float* sum;  // [padded_v]
  float* maximum;
  float* weight;
};

// Takes up `other`, which covers later positions.
inline void merge(const SoftmaxState& state, const float* sum, float maximum, float weight,
                  uint32_t columns) {
  const float both = *state.maximum > maximum ? *state.maximum : maximum;
  const F32 shift = simd::exp_nonpositive(simd::sub(simd::set1(*state.maximum), simd::set1(both)));
  const F32 other_shift = simd::exp_nonpositive(simd::sub(simd::set1(maximum), simd::set1(both)));
  for (uint32_t d = 0; d < columns; d += simd::kLanes) {
    const F32 mine = simd::mul(simd::load(state.sum + d), shift);
    simd::store(state.sum + d, simd::fma(simd::load(sum + d), other_shift, mine));
  }
  alignas(64) float factors[2 * simd::kLanes];
  simd::store(factors, shift);
  simd::store(factors + simd::kLanes, other_shift);
  *state.weight = *state.weight * factors[0] + weight * factors[simd::kLanes];
  *state.maximum = both;
}

inline void write_out(const float* sum, float weight, uint32_t dim, float* out) {
  const F32 divisor = simd::set1(weight);
  for (uint32_t d = 0; d < dim; d += simd::kLanes) {
    const F32 value = simd::div(simd::load(sum + d), divisor);
    if (d + simd::kLanes <= dim) {
      simd::store(out + d, value);
    } else {
      simd::store_first(out + d, value, dim - d);
    }
  }
}

// Scores of one query over one tile become weights, in place. `seen` is relative to the tile.
inline void update_softmax(const LayerTask& task, float* scores, Span seen,
                           const SoftmaxState& state, uint32_t columns) {
  constexpr uint32_t kVectors = kTileTokens / simd::kLanes;
  const F32 nothing = simd::set1(-__builtin_inff());
  const bool cut = seen.low > 0 || seen.high < kTileTokens;
  F32 highest = nothing;
  for (uint32_t v = 0; v < kVectors; ++v) {
    F32 score = simd::load(scores + v * simd::kLanes);
    if (task.soft_cap != 0.0f) {
      const F32 cap = simd::set1(task.soft_cap);
      score = simd::mul(cap, simd::tanh(simd::div(score, cap)));
    }
    if (cut) {
      const F32 lane =
          simd::add(simd::lane_numbers(), simd::set1(static_cast<float>(v * simd::kLanes)));
      const F32 below_high =
          simd::select(simd::less(lane, simd::set1(static_cast<float>(seen.high))), score, nothing);
      score = simd::select(simd::less(lane, simd::set1(static_cast<float>(seen.low))), nothing,
                           below_high);
    }
    simd::store(scores + v * simd::kLanes, score);
    highest = simd::max(highest, score);
  }
  const float tile_maximum = simd::reduce_max(highest);
  const float old_maximum = *state.maximum;
  const float maximum = tile_maximum > old_maximum ? tile_maximum : old_maximum;
  F32 weights = simd::zero();
  for (uint32_t v = 0; v < kVectors; ++v) {
    const F32 weight = simd::exp_nonpositive(
        simd::sub(simd::load(scores + v * simd::kLanes), simd::set1(maximum)));
    simd::store(scores + v * simd::kLanes, weight);
    weights = simd::add(weights, weight);
  }
  float tile_weight = simd::reduce_add(weights);
  if (maximum != old_maximum) {
    const F32 shift =
        simd::exp_nonpositive(simd::sub(simd::set1(old_maximum), simd::set1(maximum)));
    for (uint32_t d = 0; d < columns; d += simd::kLanes) {
      simd::store(state.sum + d, simd::mul(simd::load(state.sum + d), shift));
    }
    alignas(64) float factor[simd::kLanes];
    simd::store(factor, shift);
    tile_weight += *state.weight * factor[0];
  } else {
    tile_weight += *state.weight;
  }
  *state.weight = tile_weight;
  *state.maximum = maximum;
}

// The work of one item for at most kMaxQueries queries: rows x heads [first_head, first_head +
// heads) of the group, row-major.
template <class E>
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
        v_columns_(padded_v(task.v_dim)) {
    const uint32_t tile = kTileTokens * larger(k_columns_, v_columns_);
    tile_ = scratch;
    q_ = tile_ + tile;
    scores_ = q_ + kMaxQueries * k_columns_;
    range_sums_ = scores_ + kMaxQueries * kTileTokens;
    sums_ = range_sums_ + kMaxQueries * v_columns_;
    range_maxima_ = sums_ + kMaxQueries * v_columns_;
    range_weights_ = range_maxima_ + kMaxQueries;
    maxima_ = range_weights_ + kMaxQueries;
    weights_ = maxima_ + kMaxQueries;
    nowhere_ = weights_ + kMaxQueries;
    __builtin_memset(nowhere_, 0, k_columns_ * sizeof(float));
  }

  void run(float* partials) {
    all_ = {~0u, 0};
    for (uint32_t i = 0; i < queries_; ++i) {
      seen_[i] = visible(task_, row_of(i));
      all_ = {smaller(all_.low, seen_[i].low), larger(all_.high, seen_[i].high)};
      started_[i] = false;
    }
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
    for (uint32_t i = 0; i < queries_; ++i) {
      write_out(sums_ + i * v_columns_, weights_[i], task_.v_dim, out_of(i));
    }
  }

 private:
  uint32_t group() const { return task_.query_heads / task_.kv_heads; }
  uint32_t row_of(uint32_t query) const { return item_.first_row + query / heads_; }
  uint64_t head_of(uint32_t query) const {
    return uint64_t{item_.kv_head} * group() + first_head_ + query % heads_;
  }
  float* out_of(uint32_t query) const {
    return task_.out + (uint64_t{row_of(query)} * task_.query_heads + head_of(query)) * task_.v_dim;
  }

  void load_queries() {
    const F32 scale = simd::set1(task_.scale);
    for (uint32_t i = 0; i < queries_; ++i) {
      const float* from =
          task_.q + (uint64_t{row_of(i)} * task_.query_heads + head_of(i)) * task_.k_dim;
      float* to = q_ + i * k_columns_;
      for (uint32_t d = 0; d < task_.k_dim; d += simd::kLanes) {
        const uint32_t left = task_.k_dim - d;
        simd::store(to + d, simd::mul(left < simd::kLanes ? simd::load_first(from + d, left)
                                                          : simd::load(from + d),
                                      scale));
      }
    }
  }

  SoftmaxState range_state(uint32_t query) {
    return {range_sums_ + query * v_columns_, range_maxima_ + query, range_weights_ + query};
  }

  void attend_range(uint32_t range, Span whole) {
    const Span bounds = range_span(range);
    for (uint32_t i = 0; i < queries_; ++i) {
      if (intersect(seen_[i], bounds).empty()) continue;
      __builtin_memset(range_sums_ + i * v_columns_, 0, v_columns_ * sizeof(float));
      range_maxima_[i] = -__builtin_inff();
      range_weights_[i] = 0;
    }
    for (uint32_t start = whole.low / kTileTokens * kTileTokens; start < whole.high;
         start += kTileTokens) {
      attend_tile(start, intersect(whole, {start, start + kTileTokens}));
    }
  }

  // `present`: positions of the tile that any query sees; only their blocks are read.
  void attend_tile(uint32_t start, Span present) {
    // Queries that see nothing of the tile are left out at both ends; between them all see some.
    const Span tile{start, start + kTileTokens};
    uint32_t first = 0;
    uint32_t last = queries_;
    while (first < last && intersect(seen_[first], tile).empty()) ++first;
    while (first < last && intersect(seen_[last - 1], tile).empty()) --last;
    if (first == last) return;

    const TileRows& rows = rows_of_tile(start);
    Requests requests(next_rows(start + kTileTokens), larger(task_.k_dim, task_.v_dim) * E::kBytes);
    load_transposed<E>(rows.k, task_.k_dim, tile_, requests);
    const AskingRows k_columns{{tile_, kTileTokens}, &requests};
    for (uint32_t i = first; i < last; i += kMaxRows) {
      product(q_ + i * k_columns_, k_columns_, smaller(kMaxRows, last - i), k_columns, kTileTokens,
              task_.k_dim, scores_ + i * kTileTokens, kTileTokens, false);
    }
    Span in_tile[kMaxQueries];
    for (uint32_t i = first; i < last; ++i) {
      const Span seen = intersect(seen_[i], tile);
      in_tile[i] = seen.empty() ? Span{} : Span{seen.low - start, seen.high - start};
      if (seen.empty()) continue;
      requests.ask(requests.lines() / 4 / (last - first));
      update_softmax(task_, scores_ + i * kTileTokens, in_tile[i], range_state(i), v_columns_);
    }
    if (last - first <= kMaxRowsWide && task_.v_dim % simd::kLanes == 0) {
      add_values(first, last - first, in_tile, {rows.v, &requests});
      requests.ask_for_the_rest();
      return;
    }
    requests.ask_for_the_rest();
    load_rows<E>(rows.v, present.low - start, present.high - start, task_.v_dim, tile_);
    for (uint32_t i = first; i < last; i += kMaxRows) {
      add_values(i, smaller(kMaxRows, last - i), in_tile, {nullptr, nullptr});
    }
  }

  // The tile at `start`, or null when this item will not read it.
  const TileRows* next_rows(uint32_t start) {
    const Span mine = intersect(all_, {0, item_.last_range * kRangeTokens});
    return intersect(mine, {start, start + kTileTokens}).empty() ? nullptr : &rows_of_tile(start);
  }
  // Positions that no query sees lie in a row of zeros. Two tiles are known at a time, the current
  // one and the next.
  const TileRows& rows_of_tile(uint32_t start) {
    TileRows& rows = rows_[start / kTileTokens % 2];
    uint32_t& known = rows_start_[start / kTileTokens % 2];
    if (known == start) return rows;
    known = start;
    const Span present = intersect(all_, {start, start + kTileTokens});
    if (present.high - present.low < kTileTokens) {
      const auto* nowhere = reinterpret_cast<const std::byte*>(nowhere_);
      for (uint32_t i = 0; i < kTileTokens; ++i) rows.k[i] = rows.v[i] = nowhere;
    }
    TokenWalk walk(task_, item_.blocks, item_.kv_head, present.low);
    for (uint32_t i = present.low - start;; ++i) {
      rows.k[i] = walk.k();
      rows.v[i] = walk.v();
      if (i + 1 == present.high - start) return rows;
      walk.next();
    }
  }

  // Queries [first, first + count) take up V, from `cached` or, where it has no rows, from tile_.
  // Positions that all of them see go together, those before and behind query by query.
  void add_values(uint32_t first, uint32_t count, const Span* in_tile,
                  const CachedRows<E>& cached) {
    Span common{0, kTileTokens};
    for (uint32_t i = first; i < first + count; ++i) common = intersect(common, in_tile[i]);
    if (common.empty()) {
      for (uint32_t i = first; i < first + count; ++i) add_value_rows(i, 1, in_tile[i], cached);
      return;
    }
    for (uint32_t i = first; i < first + count; ++i) {
      add_value_rows(i, 1, {in_tile[i].low, common.low}, cached);
    }
    add_value_rows(first, count, common, cached);
    for (uint32_t i = first; i < first + count; ++i) {
      add_value_rows(i, 1, {common.high, in_tile[i].high}, cached);
    }
  }
  void add_value_rows(uint32_t query, uint32_t count, Span tokens, const CachedRows<E>& cached) {
    if (tokens.empty()) return;
    const float* weights = scores_ + query * kTileTokens + tokens.low;
    float* sums = range_sums_ + query * v_columns_;
    const uint32_t many = tokens.high - tokens.low;
    if (cached.rows != nullptr) {
      const CachedRows<E> rows{cached.rows + tokens.low, cached.requests};
      product(weights, kTileTokens, count, rows, task_.v_dim, many, sums, v_columns_, true);
    } else {
      const WideRows rows{tile_ + tokens.low * v_columns_, v_columns_};
      product(weights, kTileTokens, count, rows, v_columns_, many, sums, v_columns_, true);
    }
  }

  void merge_range(uint32_t range) {
    for (uint32_t i = 0; i < queries_; ++i) {
      if (intersect(seen_[i], range_span(range)).empty()) continue;
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
    const uint64_t all_queries = uint64_t{item_.last_row - item_.first_row} * group();
    for (uint32_t i = 0; i < queries_; ++i) {
      const uint64_t query = uint64_t{i / heads_} * group() + first_head_ + i % heads_;
      float* to = partials + (item_.partial + range * all_queries + query) * size;
      __builtin_memcpy(to, range_sums_ + i * v_columns_, v_columns_ * sizeof(float));
      to[v_columns_] = range_maxima_[i];
      to[v_columns_ + 1] = range_weights_[i];
    }
  }

  const LayerTask& task_;
  const WorkItem& item_;
  const uint32_t first_head_;
  const uint32_t heads_;
  const uint32_t queries_;
  const uint32_t k_columns_;
  const uint32_t v_columns_;
  Span all_;
  Span seen_[kMaxQueries];
  bool started_[kMaxQueries];
  TileRows rows_[2];
  uint32_t rows_start_[2] = {~0u, ~0u};
  float* tile_;          // K as [k_dim][kTileTokens], then V as [kTileTokens][v_columns]
  float* q_;             // [queries][k_columns], scaled
  float* scores_;        // [queries][kTileTokens]
  float* range_sums_;    // [queries][v_columns]
  float* sums_;          // [queries][v_columns]
  float* range_maxima_;  // [queries], and so the next three
  float* range_weights_;
  float* maxima_;
  float* weights_;
  float* nowhere_;  // a row of zeros, read for positions that no query sees
};

template <class E>
void attend_as(const LayerTask& task, const WorkItem& item, float* scratch, float* partials) {
  const uint32_t group = task.query_heads / task.kv_heads;
  const uint32_t rows = item.last_row - item.first_row;
  const uint32_t at_once = smaller(group, kMaxQueries / rows);
  for (uint32_t head = 0; head < group; head += at_once) {
    Attention<E>(task, item, head, smaller(at_once, group - head), scratch).run(partials);
  }
}

inline void attend(const LayerTask& task, const WorkItem& item, float* scratch, float* partials) {
  switch (task.dtype) {
    case DType::f32:
      return attend_as<F32Elements>(task, item, scratch, partials);
    case DType::f16:
      return attend_as<F16Elements>(task, item, scratch, partials);
    default:
      return attend_as<Bf16Elements>(task, item, scratch, partials);
  }
}

inline void combine(const LayerTask& task, const SplitItem& item, uint32_t query,
                    const float* partials) {
  const uint32_t group = task.query_heads / task.kv_heads;
  const uint32_t row = item.first_row + query / group;
  const uint64_t head = uint64_t{item.kv_head} * group + query % group;
  const uint64_t queries = uint64_t{item.last_row - item.first_row} * group;
  const uint32_t columns = padded_v(task.v_dim);
  const Span seen = visible(task, row);
  alignas(64) float sum[kMaxHeadDim];
  float maximum = 0;
  float weight = 0;
  bool started = false;
  for (uint32_t range = 0; range < item.ranges; ++range) {
    if (intersect(seen, range_span(range)).empty()) continue;
    const float* from =
        partials + (item.partial + range * queries + query) * partial_floats(task.v_dim);
    if (started) {
      merge({sum, &maximum, &weight}, from, from[columns], from[columns + 1], columns);
      continue;
    }
    started = true;
    __builtin_memcpy(sum, from, columns * sizeof(float));
    maximum = from[columns];
    weight = from[columns + 1];
  }
  write_out(sum, weight, task.v_dim,
            task.out + (uint64_t{row} * task.query_heads + head) * task.v_dim);
}

template <class E>
void store_as(const LayerTask& task, const BlockId* blocks, uint32_t row, uint32_t head) {
  const TokenWalk walk(task, blocks, head, task.slots[row]);
  const uint64_t index = uint64_t{row} * task.kv_heads + head;
  store_row<E>(task.k + index * task.k_dim, task.k_dim, walk.k());
  store_row<E>(task.v + index * task.v_dim, task.v_dim, walk.v());
}

inline void store(const LayerTask& task, const BlockId* blocks, uint32_t row, uint32_t head) {
  switch (task.dtype) {
    case DType::f32:
      return store_as<F32Elements>(task, blocks, row, head);
    case DType::f16:
      return store_as<F16Elements>(task, blocks, row, head);
    default:
      return store_as<Bf16Elements>(task, blocks, row, head);
  }
}

}  // namespace
}  // namespace tenon::attention_cpu
