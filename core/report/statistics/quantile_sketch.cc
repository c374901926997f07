#include "core/report/statistics/quantile_sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tenon {
namespace {

constexpr double kBase = 1.004;  // of two bounds of a bucket, whose middle stands for it
constexpr double kLeast = 1e-9;  // and what is smaller
constexpr int kKnownBits = 10;   // of values whose bucket is remembered
constexpr size_t kKnown = size_t{1} << kKnownBits;

}  // namespace

void QuantileSketch::add(double value) {
  if (count_ == 0 && values_.size() < exact_) {
    values_.push_back(value);
    return;
  }
  if (count_ == 0) leave_exactness();
  put_in_bucket(value);
}

void QuantileSketch::add(const QuantileSketch& other) {
  for (const double value : other.values_) add(value);
  if (other.count_ == 0) return;
  if (count_ == 0) leave_exactness();
  for (size_t i = 0; i < other.buckets_.size(); ++i) {
    if (other.buckets_[i] > 0) at(other.first_ + static_cast<int32_t>(i)) += other.buckets_[i];
  }
  count_ += other.count_;
  sum_ += other.sum_;
  most_ = std::max(most_, other.most_);
}

void QuantileSketch::leave_exactness() {
  const std::vector<double> values = std::move(values_);
  values_.clear();
  for (const double value : values) put_in_bucket(value);
}

uint64_t& QuantileSketch::at(int32_t bucket) {
  if (buckets_.empty()) first_ = bucket;
  if (bucket < first_) {
    buckets_.insert(buckets_.begin(), static_cast<size_t>(first_ - bucket), 0);
    first_ = bucket;
  }
  const auto place = static_cast<size_t>(bucket - first_);
  if (place >= buckets_.size()) buckets_.resize(place + 1);
  return buckets_[place];
}

int32_t QuantileSketch::bucket_of(double value) {
  known_.resize(kKnown);
  // The multiplier of Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4).
  Known& known = known_[std::bit_cast<uint64_t>(value) * 0x9e3779b97f4a7c15u >> (64 - kKnownBits)];
  if (known.value != value) {
    const double place = std::log(std::max(value, kLeast)) / std::log(kBase);
    known = {value, static_cast<int32_t>(std::floor(place))};
  }
  return known.bucket;
}

void QuantileSketch::put_in_bucket(double value) {
  ++at(bucket_of(value));
  ++count_;
  sum_ += value;
  most_ = std::max(most_, value);
}

double QuantileSketch::quantile(double q) const {
  const auto rank = static_cast<uint64_t>(q * static_cast<double>(count_ - 1));
  uint64_t before = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    before += buckets_[i];
    if (before > rank) {
      return std::min(std::pow(kBase, first_ + static_cast<int32_t>(i) + 0.5), most_);
    }
  }
  return most_;
}

Quantiles QuantileSketch::quantiles() const {
  if (count_ == 0) return quantiles_of(values_);
  return {sum_ / static_cast<double>(count_),
          quantile(0.5),
          quantile(0.9),
          quantile(0.99),
          most_,
          count_};
}

}  // namespace tenon
