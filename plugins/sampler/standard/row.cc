#include "plugins/sampler/standard/row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tenon::standard {

extern const ScanKernels kPortableScans;
#if defined(__x86_64__)
extern const ScanKernels kAvx2Scans;
extern const ScanKernels kAvx512Scans;
#elif defined(__aarch64__)
extern const ScanKernels kNeonScans;
#endif

const ScanKernels& scan_kernels(CpuFeatures isa) noexcept {
#if defined(__x86_64__)
  if (isa.has(CpuFeature::avx512)) return kAvx512Scans;
  if (isa.has(CpuFeature::avx2)) return kAvx2Scans;
#elif defined(__aarch64__)
  if (isa.has(CpuFeature::neon)) return kNeonScans;
#endif
  static_cast<void>(isa);
  return kPortableScans;
}

namespace {

// The neighbours of a bound. Subnormal numbers do not occur in a row, and some workers take them
// for 0, so they are stepped over.
float next_above(float x) {
  if (x >= -std::numeric_limits<float>::min() && x <= 0.0f) {
    return x < 0.0f ? 0.0f : std::numeric_limits<float>::min();
  }
  return std::nextafter(x, std::numeric_limits<float>::max());
}
float next_below(float x) {
  return -next_above(-x);
}

float cleaned(float x) {
  constexpr float kSmallest = std::numeric_limits<float>::min();
  if (!(x > -std::numeric_limits<float>::infinity())) {
    return -std::numeric_limits<float>::infinity();
  }
  x = std::min(x, std::numeric_limits<float>::max());
  return x < kSmallest && x > -kSmallest ? 0.0f : x;
}

}  // namespace

void Row::load(const float* logits, uint32_t vocabulary) {
  vocabulary_ = vocabulary;
  const uint32_t whole = vocabulary / kBlock;
  const uint32_t count = (vocabulary + kBlock - 1) / kBlock;
  values_.resize(size_t{count} * kBlock);
  block_max_.resize(count);
  stale_.assign(count, 0);
  changed_.clear();
  changed_.reserve(count);
  scans_.clean(logits, values_.data(), whole, block_max_.data());
  if (whole < count) {
    const size_t first = size_t{whole} * kBlock;
    std::fill(values_.begin() + static_cast<std::ptrdiff_t>(first), values_.end(), kNothing);
    std::memcpy(values_.data() + first, logits + first, (vocabulary - first) * sizeof(float));
    scans_.clean(values_.data() + first, values_.data() + first, 1, block_max_.data() + whole);
  }
  find_max();
}

void Row::find_max() {
  max_ = block_max_.empty() ? kNothing : *std::max_element(block_max_.begin(), block_max_.end());
}

void Row::set(uint32_t id, float logit) {
  if (id >= vocabulary_ || values_[id] == kNothing) return;
  // However large a penalty is, only a ban makes a token impossible.
  values_[id] = std::max(cleaned(logit), std::numeric_limits<float>::lowest());
  touch(id / kBlock);
}

void Row::touch(uint32_t block) {
  if (stale_[block] != 0) return;
  stale_[block] = 1;
  changed_.push_back(block);
}

void Row::ban(uint32_t id) {
  if (id >= vocabulary_) return;
  values_[id] = kNothing;
  touch(id / kBlock);
}

void Row::clean_again() {
  scans_.clean(values_.data(), values_.data(), blocks(), block_max_.data());
  stale_.assign(blocks(), 0);
  changed_.clear();
  find_max();
}

void Row::refresh() {
  if (changed_.empty()) return;
  for (uint32_t block : changed_) {
    float* values = values_.data() + size_t{block} * kBlock;
    scans_.clean(values, values, 1, &block_max_[block]);
    stale_[block] = 0;
  }
  changed_.clear();
  find_max();
}

void Row::mask(const uint64_t* allowed) {
  for (uint32_t block = 0; block < blocks(); ++block) {
    if (allowed[block] == ~uint64_t{0}) continue;
    float* values = values_.data() + size_t{block} * kBlock;
    for (uint32_t i = 0; i < kBlock; ++i) {
      if ((allowed[block] >> i & 1) == 0) values[i] = kNothing;
    }
    touch(block);
  }
}

void Row::keep_only(std::span<const TokenId> listed) {
  uint32_t next = 0;
  for (TokenId token : listed) {
    const auto id = static_cast<uint32_t>(token);
    if (id >= vocabulary_) break;
    std::fill(values_.begin() + next, values_.begin() + id, kNothing);
    next = id + 1;
  }
  std::fill(values_.begin() + next, values_.end(), kNothing);
  clean_again();
}

void Row::keep_only(const Range& range) {
  for (uint32_t id = 0; id < vocabulary_; ++id) {
    if (!range.has({values_[id], id})) values_[id] = kNothing;
  }
  clean_again();
}

bool Row::empty() const {
  return max_ == kNothing;
}

float Row::peak(const Range& range) const {
  return std::min(max_, range.first.logit);
}

Candidate Row::best() const {
  const auto block = static_cast<uint32_t>(std::find(block_max_.begin(), block_max_.end(), max_) -
                                           block_max_.begin());
  const auto first = values_.begin() + size_t{block} * kBlock;
  return {max_, static_cast<uint32_t>(std::find(first, first + kBlock, max_) - values_.begin())};
}

uint32_t Row::rank(float logit) const {
  uint32_t higher = 0;
  for (uint32_t block = 0; block < blocks(); ++block) {
    if (block_max_[block] <= logit) continue;
    const float* values = values_.data() + size_t{block} * kBlock;
    for (uint32_t i = 0; i < kBlock; ++i) higher += values[i] > logit;
  }
  return higher + 1;
}

Segment Row::segment(const Choice& choice, uint32_t begin, uint32_t end) const {
  const Range& range = choice.range;
  Segment part;
  part.values = values_.data() + size_t{begin} * kBlock;
  part.block_max = block_max_.data() + begin;
  part.blocks = end - begin;
  // After the last token's id, tokens equal to it do not count; before the first one's neither.
  part.low = begin * kBlock > range.last.id ? next_above(range.last.logit) : range.last.logit;
  part.high = (end - 1) * kBlock + kBlock - 1 < range.first.id ? next_below(range.first.logit)
                                                               : range.first.logit;
  part.peak = peak(range);
  part.scale = choice.scale;
  return part;
}

bool Row::mixed(const Range& range, uint32_t block) {
  const uint32_t begin = block * kBlock, last = begin + kBlock - 1;
  const bool low = range.last.id >= begin && range.last.id < last;
  const bool high = range.first.id > begin && range.first.id <= last;
  return low || high;
}

void Row::only(const Range& range, uint32_t block, float* values) const {
  for (uint32_t i = 0; i < kBlock; ++i) {
    const uint32_t id = block * kBlock + i;
    values[i] = range.has({values_[id], id}) ? values_[id] : kNothing;
  }
}

double Row::weigh(const Choice& choice) {
  block_weight_.resize(blocks());
  for_segments(choice, [&](const Segment& part, uint32_t first) {
    scans_.weigh(part, block_weight_.data() + first);
  });
  double total = 0.0;
  for (double weight : block_weight_) total += weight;
  return total;
}

double Row::spread(const Choice& choice) const {
  double total = 0.0;
  for_segments(choice, [&](const Segment& part, uint32_t) { scans_.spread(part, &total); });
  return total;
}

Moments Row::moments(const Range& range) const {
  Moments total;
  for_segments({range, 1.0f}, [&](const Segment& part, uint32_t) { scans_.moments(part, &total); });
  return total;
}

void Row::block_weights(const Choice& choice, uint32_t block, float* weights) const {
  float values[kBlock];
  Segment part = segment(choice, block, block + 1);
  if (mixed(choice.range, block)) {
    only(choice.range, block, values);
    part.values = values;
    part.low = choice.range.last.logit;
    part.high = choice.range.first.logit;
  }
  scans_.weigh_block(part, weights);
}

double Row::weight(const Choice& choice, uint32_t id) const {
  float weights[kBlock];
  block_weights(choice, id / kBlock, weights);
  return weights[id % kBlock];
}

uint32_t Row::draw(const Choice& choice, double target) const {
  uint32_t chosen = 0;
  double sum = 0.0;
  for (uint32_t block = 0; block < blocks(); ++block) {
    if (block_weight_[block] == 0.0) continue;
    chosen = block;
    if (sum + block_weight_[block] > target) break;
    sum += block_weight_[block];
  }
  float weights[kBlock];
  block_weights(choice, chosen, weights);
  uint32_t token = best().id;
  for (uint32_t i = 0; i < kBlock; ++i) {
    if (weights[i] == 0.0f) continue;
    // Rounding may leave the target just after the block's last token, which is drawn then.
    token = chosen * kBlock + i;
    sum += weights[i];
    if (sum > target) break;
  }
  return token;
}

void Row::probabilities(const Choice& choice, double total, std::span<float> probs) const {
  float weights[kBlock];
  std::fill(probs.begin(), probs.end(), 0.0f);
  for (uint32_t block = 0; block < blocks(); ++block) {
    if (block_weight_[block] == 0.0) continue;
    block_weights(choice, block, weights);
    const size_t first = size_t{block} * kBlock;
    const size_t count = std::min<size_t>(kBlock, probs.size() - first);
    for (size_t i = 0; i < count; ++i) {
      probs[first + i] = static_cast<float>(weights[i] / total);
    }
  }
}

}  // namespace tenon::standard
