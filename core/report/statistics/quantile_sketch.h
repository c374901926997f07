// Quantiles of any number of values in bounded memory: of few of them exact, of more within two
// thousandths of each (buckets of logarithms, as DDSketch; Masson, Rim and Lee 2019).
#pragma once

#include <cstdint>
#include <map>
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
  uint64_t count() const { return buckets_.empty() ? values_.size() : count_; }

 private:
  void put_in_bucket(double value);
  void leave_exactness();
  double quantile(double q) const;

  size_t exact_;
  std::vector<double> values_;  // empty once there are buckets
  std::map<int32_t, uint64_t> buckets_;
  uint64_t count_ = 0;
  double sum_ = 0, most_ = 0;
};

}  // namespace tenon
