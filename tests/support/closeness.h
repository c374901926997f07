// How near results are to what they should be.
#pragma once

#include <cmath>
#include <cstring>
#include <span>
#include <vector>

namespace tenon {

// The error's root mean square over that of `want`. Both have the same size.
inline double relative_rms(std::span<const float> got, const std::vector<double>& want) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

inline bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

}  // namespace tenon
