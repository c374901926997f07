// Quantiles of any number of values in bounded memory: of few of them exact, of more within two
// thousandths of each (buckets of logarithms, as DDSketch; Masson, Rim and Lee 2019).
#pragma once

#include <cstdint>
#include <vector>

#include "core/report/statistics/measured.h"

namespace tenon {

class QuantileSketch {
 public:
  // So many values are kept as they are.
  explicit QuantileSketch(size_t exact = size_t{1} << 17) : exact_(exact) {}

  void add(double value);  // 0 or more
  void add(const QuantileSketch& other);
  Quantiles quantiles() const;
  uint64_t count() const { return count_ == 0 ? values_.size() : count_; }

 private:
  uint64_t& at(int32_t bucket);
  void put_in_bucket(double value);
  int32_t bucket_of(double value);
  void leave_exactness();
  double quantile(double q) const;

  size_t exact_;
  std::vector<double> values_;     // empty once there are buckets
  std::vector<uint64_t> buckets_;  // from bucket `first_` on
  int32_t first_ = 0;
  uint64_t count_ = 0;  // in buckets
  // Of values that came lately, by some of their bits: the same ones come again and again, such as
  // the gap that a step makes for all of its sequences.
  struct Known {
    double value = -1;
    int32_t bucket = 0;
  };
  std::vector<Known> known_;
  double sum_ = 0, most_ = 0;
};

}  // namespace tenon
