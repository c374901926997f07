#include "core/base/statistics.h"

#include <algorithm>
#include <cmath>

namespace tenon {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const double place = std::clamp(q, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(std::floor(place));
  std::nth_element(values.begin(), below, values.end());
  const double fraction = place - std::floor(place);
  if (fraction == 0) return *below;
  const double next = *std::min_element(below + 1, values.end());
  return *below + fraction * (next - *below);
}

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

}  // namespace tenon
