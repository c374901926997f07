// Places between points of a curve that is linear in a logarithm.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tenon::sim {

// Between points `low` and `low` + 1; at a point, and outside, `high_part` is 0.
struct Between {
  size_t low = 0;
  double high_part = 0;
};
// `points` rise and are some.
inline Between between(const std::vector<double>& points, double at) {
  if (at <= points.front()) return {};
  if (at >= points.back()) return {points.size() - 1, 0};
  const auto above =
      static_cast<size_t>(std::upper_bound(points.begin(), points.end(), at) - points.begin());
  const size_t low = above - 1;
  return {low, std::log(at / points[low]) / std::log(points[above] / points[low])};
}

}  // namespace tenon::sim
