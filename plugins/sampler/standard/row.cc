#include "plugins/sampler/standard/row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tenon::standard {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

typedef float Floats __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));
constexpr uint32_t kLanes = 4;

Floats load4(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
void store4(float* to, Floats value) {
  std::memcpy(to, &value, sizeof(value));
}
Floats all(float value) {
  return Floats{value, value, value, value};
}
Floats pick(Ints condition, Floats yes, Floats no) {
  return condition ? yes : no;
}

// 2^n · p(r) with x = n·ln 2 + r, |r| <= ln 2 / 2; p is the Taylor polynomial of degree 7.
Floats exp4(Floats x) {
  const Floats shift = all(12582912.0f);  // 1.5·2^23: adding it rounds to an integer
  const Floats clamped = pick(x < all(-87.0f), all(-87.0f), x);
  const Floats shifted = clamped * all(1.44269504f) + shift;
  const Floats n = shifted - shift;
  const Floats r = (clamped - n * all(0.693359375f)) - n * all(-2.12194440e-4f);
  Floats p = all(1.0f / 5040);
  p = p * r + all(1.0f / 720);
  p = p * r + all(1.0f / 120);
  p = p * r + all(1.0f / 24);
  p = p * r + all(1.0f / 6);
  p = p * r + all(0.5f);
  p = p * r + all(1.0f);
  p = p * r + all(1.0f);
  // The low bits of `shifted` are n: move them into the exponent.
  Ints exponent = (std::bit_cast<Ints>(shifted) - std::bit_cast<Ints>(shift)) + 127;
  const Floats power = std::bit_cast<Floats>(exponent << 23);
  return pick(x < all(-87.0f), all(0.0f), p * power);
}

double lane_sum(const float* values) {
  Floats sum = load4(values);
  for (uint32_t i = kLanes; i < kBlock; i += kLanes) sum += load4(values + i);
  return (static_cast<double>(sum[0]) + sum[1]) + (static_cast<double>(sum[2]) + sum[3]);
}

float lane_max(const float* values) {
  Floats best = load4(values);
  for (uint32_t i = kLanes; i < kBlock; i += kLanes) {
    const Floats next = load4(values + i);
    best = pick(next > best, next, best);
  }
  return std::max(std::max(best[0], best[1]), std::max(best[2], best[3]));
}

}  // namespace

bool best_of(const float* logits, uint32_t vocabulary, uint32_t& best) {
  constexpr uint32_t kStride = 4 * kLanes;  // four chains, so that comparisons overlap
  Floats tops[4] = {all(kNothing), all(kNothing), all(kNothing), all(kNothing)};
  uint32_t i = 0;
  for (; i + kStride <= vocabulary; i += kStride) {
    for (uint32_t chain = 0; chain < 4; ++chain) {
      const Floats x = load4(logits + i + chain * kLanes);
      tops[chain] = pick(x > tops[chain], x, tops[chain]);
    }
  }
  float top = kNothing;
  for (const Floats& lanes : tops) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) top = std::max(top, lanes[lane]);
  }
  for (; i < vocabulary; ++i) top = logits[i] > top ? logits[i] : top;
  best = static_cast<uint32_t>(std::find(logits, logits + vocabulary, top) - logits);
  return top > kNothing;
}

void exp_block(const float* x, float* out) {
  for (uint32_t i = 0; i < kBlock; i += kLanes) store4(out + i, exp4(load4(x + i)));
}

void Row::load(const float* logits, uint32_t vocabulary) {
  const uint32_t count = (vocabulary + kBlock - 1) / kBlock;
  values_.resize(size_t{count} * kBlock);
  block_max_.resize(count);
  std::memcpy(values_.data(), logits, vocabulary * sizeof(float));
  std::fill(values_.begin() + vocabulary, values_.end(), kNothing);
  const Floats highest = all(std::numeric_limits<float>::max());
  for (uint32_t block = 0; block < count; ++block) {
    float* values = values_.data() + size_t{block} * kBlock;
    for (uint32_t i = 0; i < kBlock; i += kLanes) {
      Floats x = load4(values + i);
      x = pick(x == x, x, all(kNothing));
      store4(values + i, pick(x > highest, highest, x));
    }
    block_max_[block] = lane_max(values);
  }
  find_max();
}

void Row::find_max() {
  max_ = *std::max_element(block_max_.begin(), block_max_.end());
}

void Row::mask(const uint64_t* allowed) {
  for (uint32_t block = 0; block < blocks(); ++block) {
    if (allowed[block] == ~uint64_t{0}) continue;
    float* values = values_.data() + size_t{block} * kBlock;
    for (uint32_t i = 0; i < kBlock; ++i) {
      if ((allowed[block] >> i & 1) == 0) values[i] = kNothing;
    }
    block_max_[block] = lane_max(values);
  }
  find_max();
}

bool Row::empty() const {
  return max_ == kNothing;
}

uint32_t Row::best() const {
  const auto block = static_cast<uint32_t>(std::find(block_max_.begin(), block_max_.end(), max_) -
                                           block_max_.begin());
  const auto first = values_.begin() + size_t{block} * kBlock;
  return static_cast<uint32_t>(std::find(first, first + kBlock, max_) - values_.begin());
}

void Row::block_weights(uint32_t block, const Candidate& last, float scale, float* weights) const {
  const float* values = values_.data() + size_t{block} * kBlock;
  const Floats cut = all(last.logit), max = all(max_), factor = all(scale);
  float arguments[kBlock];
  for (uint32_t i = 0; i < kBlock; i += kLanes) {
    const Floats x = load4(values + i);
    store4(arguments + i, pick(x >= cut, (x - max) * factor, all(-88.0f)));
  }
  exp_block(arguments, weights);
  const uint32_t first = block * kBlock;
  if (first + kBlock <= last.id + 1) return;
  for (uint32_t i = 0; i < kBlock; ++i) {
    if (values[i] == last.logit && first + i > last.id) weights[i] = 0.0f;
  }
}

double Row::weigh(const Candidate& last, float scale) {
  block_weight_.assign(blocks(), 0.0);
  double total = 0.0;
  float weights[kBlock];
  for (uint32_t block = 0; block < blocks(); ++block) {
    if (block_max_[block] < last.logit || block_max_[block] == kNothing) continue;
    block_weights(block, last, scale, weights);
    block_weight_[block] = lane_sum(weights);
    total += block_weight_[block];
  }
  return total;
}

uint32_t Row::draw(const Candidate& last, float scale, double target) const {
  uint32_t chosen = 0;
  double sum = 0.0;
  for (uint32_t block = 0; block < blocks(); ++block) {
    if (block_weight_[block] == 0.0) continue;
    chosen = block;
    if (sum + block_weight_[block] > target) break;
    sum += block_weight_[block];
  }
  float weights[kBlock];
  block_weights(chosen, last, scale, weights);
  uint32_t token = best();
  for (uint32_t i = 0; i < kBlock; ++i) {
    if (weights[i] == 0.0f) continue;
    // Rounding may leave the target just behind the block's last token, which is drawn then.
    token = chosen * kBlock + i;
    sum += weights[i];
    if (sum > target) break;
  }
  return token;
}

void Row::probabilities(const Candidate& last, float scale, double total,
                        std::span<float> probs) const {
  float weights[kBlock];
  for (uint32_t block = 0; block < blocks(); ++block) {
    if (block_weight_[block] == 0.0) continue;
    block_weights(block, last, scale, weights);
    const size_t first = size_t{block} * kBlock;
    const size_t count = std::min<size_t>(kBlock, probs.size() - first);
    for (size_t i = 0; i < count; ++i) {
      probs[first + i] = static_cast<float>(weights[i] / total);
    }
  }
}

uint32_t Row::rank(uint32_t id) const {
  const float logit = values_[id];
  uint32_t higher = 0;
  for (uint32_t block = 0; block < blocks(); ++block) {
    if (block_max_[block] <= logit) continue;
    const float* values = values_.data() + size_t{block} * kBlock;
    for (uint32_t i = 0; i < kBlock; ++i) higher += values[i] > logit;
  }
  return higher + 1;
}

// Candidates are gathered while they beat a threshold, the worst of the best `count` so far; the
// store is cut back whenever it has twice as many as needed.
void Row::select(uint32_t count, std::vector<Candidate>& out) const {
  out.clear();
  if (count == 0) return;
  const size_t room = size_t{2} * count + kBlock;
  out.reserve(room + kBlock);
  float threshold = kNothing;
  const auto cut_back = [&] {
    if (out.size() <= count) return;
    std::nth_element(out.begin(), out.begin() + (count - 1), out.end(), before);
    out.resize(count);
    threshold = out[count - 1].logit;
  };
  for (uint32_t block = 0; block < blocks(); ++block) {
    // Equals come in order of ids, so a later equal never displaces an earlier one.
    if (block_max_[block] <= threshold) continue;
    const float* values = values_.data() + size_t{block} * kBlock;
    for (uint32_t i = 0; i < kBlock; ++i) {
      if (values[i] > threshold) out.push_back({values[i], block * kBlock + i, 0.0f});
    }
    if (out.size() >= room) cut_back();
  }
  cut_back();
}

double weigh(std::vector<Candidate>& candidates, float max, float scale) {
  double total = 0.0;
  float weights[kBlock];
  for (size_t first = 0; first < candidates.size(); first += kBlock) {
    const size_t count = std::min<size_t>(kBlock, candidates.size() - first);
    std::fill_n(weights, kBlock, 0.0f);
    for (size_t i = 0; i < count; ++i) weights[i] = (candidates[first + i].logit - max) * scale;
    exp_block(weights, weights);
    for (size_t i = 0; i < count; ++i) {
      candidates[first + i].weight = weights[i];
      total += weights[i];
    }
  }
  return total;
}

Candidate reach(std::vector<Candidate>& candidates, double target) {
  auto first = candidates.begin(), last = candidates.end();
  double sum = 0.0;
  // Halve the range that has the answer; each half is looked at once, so the work is linear.
  while (last - first > 32) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, before);
    double half = 0.0;
    for (auto at = first; at != middle; ++at) half += at->weight;
    if (sum + half >= target) {
      last = middle;
    } else {
      sum += half;
      first = middle;
    }
  }
  std::sort(first, last, before);
  for (; first != last; ++first) {
    sum += first->weight;
    if (sum >= target) return *first;
  }
  return *std::prev(last);
}

}  // namespace tenon::standard
