// What weight the queries of one KV head gave to each entry, for managers that evict by it.
//
// The scores are made anew, twice: for the softmax, then for the weights, which `attend` had in
// pieces and forgot. Sums are whole numbers, so which worker adds first changes nothing; a weight
// itself depends on its row alone, as tiles are walked from entry 0 in order.
#pragma once

#include "plugins/attention/cpu/kernels.h"
#include "plugins/attention/cpu/kv_tile.h"
#include "plugins/attention/cpu/product.h"
#include "plugins/attention/cpu/queries.h"
#include "plugins/attention/cpu/softmax.h"

namespace tenon::attention_cpu {
namespace {

template <class E, class S>
class Scores {
 public:
  Scores(const LayerTask& task, const ScoreItem& item, float* scratch)
      : task_(task), item_(item), group_(task.query_heads / task.kv_heads) {
    tile_ = scratch;
    const uint32_t columns = larger(padded_k(task.k_dim), padded_v(task.v_dim));
    q_ = tile_ + kTileTokens * (S::kLatent ? kLatentPart : columns);
    scores_ = q_ + kMaxRows * S::kQueryStride;
  }

  void run() {
    const uint32_t all = (item_.last_row - item_.first_row) * group_;
    for (uint32_t first = 0; first < all; first += kMaxRows) {
      queries_ = smaller(kMaxRows, all - first);
      begin(first);
      for (uint32_t start = low_ / kTileTokens * kTileTokens; start < high_; start += kTileTokens) {
        make_scores(start);
        take_up();
      }
      for (uint32_t i = 0; i < queries_; ++i) finish(i);
      for (uint32_t start = low_ / kTileTokens * kTileTokens; start < high_; start += kTileTokens) {
        make_scores(start);
        give(start);
      }
    }
  }

 private:
  // Queries are rows x heads of the group, row-major, as `attend` has them.
  void begin(uint32_t first) {
    low_ = ~0u;
    high_ = 0;
    for (uint32_t i = 0; i < queries_; ++i) {
      const uint32_t row = item_.first_row + (first + i) / group_;
      head_[i] = uint64_t{item_.kv_head} * group_ + (first + i) % group_;
      sums_[i] = load_query<E>(task_, row, head_[i], q_ + i * S::kQueryStride);
      seen_[i] = visible(task_, row);
      own_[i] = task_.seen[row].own;
      low_ = smaller(low_, seen_[i].low);
      high_ = larger(high_, seen_[i].high);
      maxima_[i] = -__builtin_inff();
      weights_[i] = 0;
    }
  }

  // Parts of the tile are widened into the first cache. A score takes up part after part, so its
  // sum is that of the whole row.
  void make_scores(uint32_t start) {
    const Span tile{start, start + kTileTokens};
    rows_.find(task_, item_.blocks, start, larger(low_, start), smaller(high_, tile.high));
    const uint64_t offset = uint64_t{item_.kv_head} * task_.k_plane.head_bytes;
    for (uint32_t part = 0; part < task_.k_dim; part += kLatentPart) {
      const uint32_t width = smaller(kLatentPart, task_.k_dim - part);
      load_transposed<E, true>(rows_.k, offset + part * E::kBits / 8, width, tile_);
      product<S::kQueryStride, true>(q_ + part, queries_, WideRows{tile_, kTileTokens}, kTileTokens,
                                     width, scores_, kTileTokens, part > 0);
    }
    if constexpr (E::kScaled) load_scales<E>(task_, rows_, item_.kv_head, scales_);
    const float cap = task_.slopes == nullptr ? task_.soft_cap : 0.0f;  // else capped already
    for (uint32_t i = 0; i < queries_; ++i) {
      float* scores = scores_ + i * kTileTokens;
      if constexpr (E::kScaled) scale_scores<E>(scales_, sums_[i], scores);
      if (task_.slopes != nullptr) {
        const float from = static_cast<float>(start) - static_cast<float>(own_[i]);
        bias_scores(task_.soft_cap, {task_.slopes[head_[i]] * kLog2OfE, from}, scores);
      }
      const Span seen = intersect(seen_[i], tile);
      in_tile_[i] = !seen.empty();
      found_[i] = seen.empty() ? -__builtin_inff()
                               : largest_score(cap, scores, {seen.low - start, seen.high - start});
    }
  }
  void take_up() {
    raise_maxima(found_, maxima_, weights_, factors_, queries_);
    for (uint32_t i = 0; i < queries_; ++i) {
      if (in_tile_[i]) weights_[i] += weigh_scores(scores_ + i * kTileTokens, maxima_[i]);
    }
  }
  // From here on `weights_` turn a weight into AttentionScores' numbers.
  void finish(uint32_t i) {
    if (task_.sinks != nullptr) {
      weights_[i] = with_sink(weights_[i], maxima_[i], task_.sinks[head_[i]]);
    }
    weights_[i] = kWholeWeight / weights_[i];
  }

  void give(uint32_t start) {
    int32_t given[kTileTokens] = {};
    for (uint32_t i = 0; i < queries_; ++i) {
      if (!in_tile_[i]) continue;
      float* scores = scores_ + i * kTileTokens;
      (void)weigh_scores(scores, maxima_[i]);
      for (uint32_t t = 0; t < kTileTokens; ++t) {
        const float weight = __builtin_rintf(scores[t] * weights_[i]);
        given[t] += weight > 0 ? static_cast<int32_t>(weight) : 0;  // NaN is not above 0 either
      }
    }
    for (uint32_t t = 0; t < kTileTokens; ++t) {
      if (given[t] == 0) continue;
      __atomic_fetch_add(item_.sums + start + t, static_cast<uint64_t>(given[t]), __ATOMIC_RELAXED);
    }
  }

  static constexpr float kWholeWeight = 1 << 24;

  const LayerTask& task_;
  const ScoreItem& item_;
  const uint32_t group_;  // query heads a KV head
  uint32_t queries_ = 0;  // of the block at hand
  uint32_t low_ = 0;      // what any of them sees
  uint32_t high_ = 0;
  uint64_t head_[kMaxRows];
  Span seen_[kMaxRows];
  uint32_t own_[kMaxRows];
  bool in_tile_[kMaxRows];
  // Whole vectors, as `raise_maxima` reads them.
  alignas(64) float found_[16];
  alignas(64) float maxima_[16];
  alignas(64) float weights_[16];
  alignas(64) float factors_[16];
  float sums_[kMaxRows];  // Σ q, for i4
  TileRows rows_;
  TileScales scales_;
  float* tile_;    // K as columns
  float* q_;       // [kMaxRows][kQueryStride]
  float* scores_;  // [kMaxRows][kTileTokens]
};

}  // namespace
}  // namespace tenon::attention_cpu
