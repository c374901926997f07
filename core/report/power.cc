#include "core/report/power.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/report/statistics/distributions.h"
#include "core/report/statistics/sequence.h"

namespace tenon {

double detectable(double deviation, size_t pairs, double confidence, Looks looks, double power) {
  if (pairs < 2) return std::numeric_limits<double>::infinity();
  const double freedom = static_cast<double>(pairs - 1);
  const double factor = looks == Looks::always ? sequence_factor(pairs, confidence)
                                               : student_quantile((1 + confidence) / 2, freedom);
  return (factor + student_quantile(power, freedom)) * deviation /
         std::sqrt(static_cast<double>(pairs));
}

size_t pairs_for(double effect, double deviation, double confidence, Looks looks, size_t most,
                 double power) {
  for (size_t pairs = 2; pairs <= most; ++pairs) {
    if (detectable(deviation, pairs, confidence, looks, power) <= effect) return pairs;
  }
  return 0;
}

double pairs_like_these(double effect, double deviation, double confidence, double power) {
  constexpr double kMany = 1e6;  // degrees of freedom: as good as normal
  const double errors =
      student_quantile((1 + confidence) / 2, kMany) + student_quantile(power, kMany);
  return std::max(2.0, std::ceil(std::pow(errors * deviation / effect, 2)));
}

}  // namespace tenon
