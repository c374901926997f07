// Order statistics of measurements.
#pragma once

#include <vector>

namespace tenon {

// The value below which the share `q` (0 … 1) of `values` lies: linear between the two nearest
// order statistics, as numpy's default. 0 when there are none.
double quantile(std::vector<double> values, double q);
double median(std::vector<double> values);

}  // namespace tenon
