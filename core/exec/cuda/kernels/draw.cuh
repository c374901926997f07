// A token from a row of logits, as docs/strategies/samplers.md ("Drawn elsewhere") defines it: a
// block a row. What stages keep is a range in one order, most likely first, lower id among equals,
// so a selection is one bound. Weights are e^x by a polynomial whose every product and sum is
// rounded, summed up in blocks of 64 and then block by block: bits are those of the host.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

inline constexpr int kDrawThreads = 256;
inline constexpr int kDrawWarps = kDrawThreads / 32;
inline constexpr int kBuckets = 256;          // of a digit
inline constexpr int kFew = 128;              // tokens that top_p is decided among
inline constexpr double kSumDoubt = 0x1p-44;  // more than orders of kFew additions can differ by
inline constexpr float kNothing = -INFINITY;  // the logit of what cannot be drawn
inline constexpr float kLargest = 0x1.fffffep127f;
inline constexpr float kSmallest = 0x1p-126f;

inline constexpr int kRowPieces = sizeof(DrawRow) / sizeof(DrawCut);
inline constexpr int kFirstCut = kRowPieces - 3;

struct DrawView {
  Global<const float> logits;
  Global<const DrawRow> draws;
  Global<const DrawCut> pieces;  // the same as pieces of 16 bytes, of which the last are cuts
  Global<int32_t> tokens;
  Global<double> weights;
  uint32_t vocabulary, blocks;
};

// Philox4x32-10 of the key, as <tenon/sdk/random.h> has it: in [0, 1), 53 bits, for the purpose 0.
TENON_DEVICE double uniform_of(const DrawRow& row) {
  uint32_t counter[4] = {row.position, row.sample, 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(row.seed), static_cast<uint32_t>(row.seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = static_cast<uint64_t>(0xD2511F53u) * counter[0];
    const uint64_t second = static_cast<uint64_t>(0xCD9E8D57u) * counter[2];
    counter[0] = static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0];
    counter[1] = static_cast<uint32_t>(second);
    counter[2] = static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1];
    counter[3] = static_cast<uint32_t>(first);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  const uint64_t bits = static_cast<uint64_t>(counter[0]) << 32 | counter[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

struct Token {
  float logit = kNothing;
  uint32_t id = 0xffffffffu;
};
TENON_DEVICE bool before(Token a, Token b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// NaN and -inf cannot be drawn, subnormal numbers are 0. Rows with +inf are left to the sampler,
// who looks whether anything finite is next to it.
TENON_DEVICE float cleaned(float x) {
  if (!(x > kNothing)) return kNothing;
  const float held = x > kLargest ? kLargest : x;
  return held < kSmallest && held > -kSmallest ? 0.0f : held;
}

// e^a for -87 <= a <= 0.
TENON_DEVICE float exp_rounded(float a) {
  const float shift = 12582912.0f + 127.0f;
  const float shifted = a * 1.44269504f + shift;
  const float n = shifted - shift;
  const float r = (a - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * bits_float(float_bits(shifted) << 23);
}

// The next larger number.
TENON_DEVICE float next_up(float x) {
  if (x == 0.0f) return bits_float(1);
  return bits_float(x > 0.0f ? float_bits(x) + 1 : float_bits(x) - 1);
}

// Rises in the order of selection: what comes first has the highest key.
TENON_DEVICE uint64_t key_of(Token token) {
  const uint32_t bits = float_bits(token.logit);
  const uint32_t rising = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(rising) << 32 | static_cast<uint32_t>(~token.id);
}
TENON_DEVICE Token token_of(uint64_t key) {
  const uint32_t rising = static_cast<uint32_t>(key >> 32);
  Token token;
  token.logit = bits_float((rising >> 31) != 0 ? rising & 0x7fffffffu : ~rising);
  token.id = ~static_cast<uint32_t>(key);
  return token;
}

// One row on its way to a token. Its methods are called by all threads of a block, and what they
// return is the same in all of them.
class RowDrawing {
 public:
  TENON_DEVICE RowDrawing(const DrawView& view, const DrawRow& row, SharedArena& arena)
      : logits_(view.logits + static_cast<int64_t>(row.logits_row) * view.vocabulary),
        weights_(view.weights + static_cast<int64_t>(blockIdx.x) * view.blocks),
        counts_(arena.take<uint32_t>(kBuckets)),
        few_logits_(arena.take<float>(kFew)),
        few_ids_(arena.take<uint32_t>(kFew)),
        few_weights_(arena.take<float>(kFew)),
        total_(arena.take<double>(1)),
        vocabulary_(view.vocabulary),
        blocks_(view.blocks) {}

  // The first of all tokens; its logit is -inf where none can be drawn. Greedy rows are compared as
  // they are.
  TENON_DEVICE Token best(bool greedy) {
    Token best;
    for (uint32_t id = threadIdx.x; id < vocabulary_; id += kDrawThreads) {
      const float x = logits_[static_cast<int64_t>(id)];
      const Token token = {greedy ? x : cleaned(x), id};
      if (token.logit > best.logit) best = token;
    }
    for (int with = 16; with > 0; with /= 2) {
      Token other;
      other.logit = __shfl_xor_sync(kAllLanes, best.logit, with);
      other.id = __shfl_xor_sync(kAllLanes, best.id, with);
      if (before(other, best)) best = other;
    }
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x % 32 == 0) {
      few_logits_[warp] = best.logit;
      few_ids_[warp] = best.id;
    }
    __syncthreads();
    for (int i = 0; i < kDrawWarps; ++i) {
      const Token other = {few_logits_[i], few_ids_[i]};
      if (before(other, best)) best = other;
    }
    __syncthreads();
    best_ = best;
    return best;
  }

  // Narrows the range by a stage. False: it cannot be said to the bit what stays.
  TENON_DEVICE bool cut(const DrawCut& by) {
    scale_ = by.scale;
    if (by.kind == DrawCutKind::top_k) {
      Token last;
      if (by.number < vocabulary_ && find(static_cast<uint32_t>(by.number), last)) last_ = last;
      return true;
    }
    if (by.kind == DrawCutKind::top_p) return keep_probability(by.number);
    keep_from(static_cast<double>(best_.logit) + by.number);
    return true;
  }

  // The token at which the running sum of weights, in the order of ids, passes `uniform` of them
  // all; what it returns counts in the first warp.
  TENON_DEVICE uint32_t draw(float scale, double uniform) {
    scale_ = scale;
    const double target = uniform * weigh();
    if (threadIdx.x >= 32) return best_.id;
    uint32_t chosen = 0;
    double sum = 0.0;
    bool passed = false;
    for (uint32_t first = 0; first < blocks_ && !passed; first += 32) {
      const double own = block_weight(first);
      for (int i = 0; i < 32; ++i) {
        const double weight = __shfl_sync(kAllLanes, own, i);
        if (passed || weight == 0.0) continue;
        chosen = first + static_cast<uint32_t>(i);
        passed = sum + weight > target;
        if (!passed) sum += weight;
      }
    }
    const uint32_t lane = threadIdx.x % 32;
    const float low = weight_at(chosen * kDrawBlock + lane);
    const float high = weight_at(chosen * kDrawBlock + 32 + lane);
    uint32_t token = best_.id;
    bool found = false;
    for (int i = 0; i < 64; ++i) {
      const float weight = __shfl_sync(kAllLanes, i < 32 ? low : high, i % 32);
      if (found || weight == 0.0f) continue;
      // Rounding may leave the target just behind the block's last token, which is drawn then.
      token = chosen * kDrawBlock + static_cast<uint32_t>(i);
      sum += static_cast<double>(weight);
      found = sum > target;
    }
    return token;
  }

 private:
  TENON_DEVICE Token token_at(uint32_t id) const {
    Token token;
    token.id = id;
    if (id < vocabulary_) token.logit = cleaned(logits_[static_cast<int64_t>(id)]);
    return token;
  }
  TENON_DEVICE bool has(Token token) const {
    return token.logit > kNothing && !before(last_, token);
  }
  TENON_DEVICE float weight_of(Token token) const {
    if (!has(token)) return 0.0f;
    const float raw = (token.logit - best_.logit) * scale_;
    if (raw < -87.0f) return 0.0f;
    return exp_rounded(raw < 0.0f ? raw : 0.0f);
  }
  TENON_DEVICE float weight_at(uint32_t id) const { return weight_of(token_at(id)); }
  TENON_DEVICE double block_weight(uint32_t first) const {
    const uint32_t block = first + threadIdx.x % 32;
    return block < blocks_ ? double{weights_[static_cast<int64_t>(block)]} : 0.0;
  }

  // The sum of all weights, blocks in order. A warp makes a block's: sixteen lanes, then halves.
  TENON_DEVICE double weigh() {
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t block = threadIdx.x / 32; block < blocks_; block += kDrawWarps) {
      const float low = weight_at(block * kDrawBlock + lane);
      const float high = weight_at(block * kDrawBlock + 32 + lane);
      float sum = low + __shfl_down_sync(kAllLanes, low, 16);
      sum += high;
      sum += __shfl_down_sync(kAllLanes, high, 16);
      for (uint32_t by = 8; by > 0; by /= 2) sum += __shfl_down_sync(kAllLanes, sum, by);
      if (lane == 0) weights_[static_cast<int64_t>(block)] = static_cast<double>(sum);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      double total = 0.0;
      for (uint32_t first = 0; first < blocks_; first += 32) {
        const double own = block_weight(first);
        for (int i = 0; i < 32; ++i) total += __shfl_sync(kAllLanes, own, i);
      }
      if (lane == 0) total_[0] = total;
    }
    __syncthreads();
    return total_[0];
  }

  // The count-th token of the range. False: there are fewer.
  TENON_DEVICE bool find(uint32_t count, Token& token) {
    uint64_t prefix = 0;
    uint32_t left = count;
    for (int shift = 56; shift >= 0; shift -= 8) {
      for (int i = static_cast<int>(threadIdx.x); i < kBuckets; i += kDrawThreads) counts_[i] = 0;
      __syncthreads();
      for (uint32_t id = threadIdx.x; id < vocabulary_; id += kDrawThreads) {
        const Token own = token_at(id);
        if (!has(own)) continue;
        const uint64_t key = key_of(own);
        if (shift < 56 && (key ^ prefix) >> (shift + 8) != 0) continue;
        atomic_add(counts_ + static_cast<int>(key >> shift & 255), 1u);
      }
      __syncthreads();
      int bucket = kBuckets - 1;
      for (; bucket >= 0; --bucket) {
        const uint32_t here = counts_[bucket];
        if (here >= left) break;
        left -= here;
      }
      __syncthreads();
      if (bucket < 0) return false;
      prefix |= static_cast<uint64_t>(bucket) << shift;
    }
    token = token_of(prefix);
    return true;
  }

  TENON_DEVICE void keep_from(double logit) {
    const double lowest = logit < best_.logit ? logit : static_cast<double>(best_.logit);
    if (!(lowest > last_.logit)) return;
    float bound = static_cast<float>(lowest);
    if (bound < lowest) bound = next_up(bound);
    last_ = {bound, 0xffffffffu};
  }

  // The shortest list whose weights reach `part` of all. Sums in another order could end elsewhere
  // where one of them comes close to that.
  TENON_DEVICE bool keep_probability(double part) {
    const double target = part * weigh();
    const uint32_t count = gather_few();
    double sum = 0.0;
    for (uint32_t i = 0; i < count; ++i) {
      const int at = static_cast<int>(i);
      sum += static_cast<double>(few_weights_[at]);
      const double off = sum - target;
      if ((off < 0.0 ? -off : off) <= target * kSumDoubt) return false;
      if (sum < target && (i + 1 < count || count == kFew)) continue;
      last_ = {few_logits_[at], few_ids_[at]};
      return true;
    }
    return false;
  }

  // The first tokens of the range, at most kFew, in order and with their weights.
  TENON_DEVICE uint32_t gather_few() {
    Token last;
    const bool more = find(kFew, last);
    if (!more) last = last_;
    if (threadIdx.x == 0) counts_[0] = 0;
    __syncthreads();
    for (uint32_t id = threadIdx.x; id < vocabulary_; id += kDrawThreads) {
      const Token own = token_at(id);
      if (!has(own) || before(last, own)) continue;
      const int at = static_cast<int>(atomic_add(counts_, 1u));
      few_logits_[at] = own.logit;
      few_ids_[at] = own.id;
    }
    __syncthreads();
    const uint32_t count = counts_[0];
    Token own;
    int place = 0;
    if (threadIdx.x < count) {
      own = {few_logits_[static_cast<int>(threadIdx.x)], few_ids_[static_cast<int>(threadIdx.x)]};
      for (int i = 0; i < static_cast<int>(count); ++i) {
        const Token other = {few_logits_[i], few_ids_[i]};
        place += before(other, own) ? 1 : 0;
      }
    }
    __syncthreads();
    if (threadIdx.x < count) {
      few_logits_[place] = own.logit;
      few_ids_[place] = own.id;
      few_weights_[place] = weight_of(own);
    }
    __syncthreads();
    return count;
  }

  Global<const float> logits_;
  Global<double> weights_;
  Shared<uint32_t> counts_;
  Shared<float> few_logits_;
  Shared<uint32_t> few_ids_;
  Shared<float> few_weights_;
  Shared<double> total_;
  uint32_t vocabulary_, blocks_;
  Token best_;
  Token last_ = {-kLargest, 0xffffffffu};
  float scale_ = 1.0f;
};

// Grid: draws.
__global__ void __launch_bounds__(kDrawThreads) draw_kernel(DrawView view) {
  let_next_start();
  wait_for_earlier();
  SharedArena arena;
  const DrawRow row = view.draws[static_cast<int64_t>(blockIdx.x)];
  RowDrawing drawing(view, row, arena);
  const Token best = drawing.best(row.greedy != 0);
  bool sure = best.logit > kNothing && best.logit < kLargest;
  if (row.greedy == 0) {
    const int64_t cuts = static_cast<int64_t>(blockIdx.x) * kRowPieces + kFirstCut;
    for (uint32_t i = 0; i < row.cut_count && sure; ++i) sure = drawing.cut(view.pieces[cuts + i]);
  }
  uint32_t token = best.id;
  if (sure && row.greedy == 0) token = drawing.draw(row.scale, uniform_of(row));
  if (threadIdx.x == 0) {
    view.tokens[static_cast<int64_t>(blockIdx.x)] = sure ? static_cast<int32_t>(token) : -1;
  }
}

}  // namespace tenon::cuda
