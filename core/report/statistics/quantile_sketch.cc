#include "core/report/statistics/quantile_sketch.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

constexpr double kBase = 1.004;  // of two bounds of a bucket, whose middle stands for it
constexpr double kLeast = 1e-9;  // and what is smaller

}  // namespace

void QuantileSketch::add(double value) {
  if (buckets_.empty() && values_.size() < exact_) {
    values_.push_back(value);
    return;
  }
  if (buckets_.empty()) leave_exactness();
  put_in_bucket(value);
}

void QuantileSketch::add(const QuantileSketch& other) {
  for (const double value : other.values_) add(value);
  if (other.buckets_.empty()) return;
  if (buckets_.empty()) leave_exactness();
  for (const auto& [bucket, count] : other.buckets_) buckets_[bucket] += count;
  count_ += other.count_;
  sum_ += other.sum_;
  most_ = std::max(most_, other.most_);
}

void QuantileSketch::leave_exactness() {
  const std::vector<double> values = std::move(values_);
  values_.clear();
  for (const double value : values) put_in_bucket(value);
}

void QuantileSketch::put_in_bucket(double value) {
  ++buckets_[static_cast<int32_t>(std::floor(std::log(std::max(value, kLeast)) / std::log(kBase)))];
  ++count_;
  sum_ += value;
  most_ = std::max(most_, value);
}

double QuantileSketch::quantile(double q) const {
  const auto rank = static_cast<uint64_t>(q * static_cast<double>(count_ - 1));
  uint64_t before = 0;
  for (const auto& [bucket, count] : buckets_) {
    before += count;
    if (before > rank) return std::min(std::pow(kBase, bucket + 0.5), most_);
  }
  return most_;
}

Quantiles QuantileSketch::quantiles() const {
  if (buckets_.empty()) return quantiles_of(values_);
  return {sum_ / static_cast<double>(count_),
          quantile(0.5),
          quantile(0.9),
          quantile(0.99),
          most_,
          count_};
}

}  // namespace tenon
