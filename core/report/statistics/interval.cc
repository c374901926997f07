#include "core/report/statistics/interval.h"

#include <algorithm>
#include <numeric>

#include "core/base/statistics.h"
#include "core/report/statistics/distributions.h"
#include "core/report/statistics/random_draws.h"

namespace tenon {
namespace {

double standard_error(std::span<const double> values) {
  return standard_deviation_of(values) / std::sqrt(static_cast<double>(values.size()));
}

}  // namespace

double mean_of(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation_of(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

std::vector<double> log_ratios(std::span<const double> a, std::span<const double> b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] > 0 && b[i] > 0) ratios.push_back(std::log(b[i] / a[i]));
  }
  return ratios;
}

Interval mean_interval(std::span<const double> values, double confidence) {
  Interval out{.estimate = mean_of(values), .confidence = confidence};
  if (values.size() < 2) return out;
  const double freedom = static_cast<double>(values.size() - 1);
  const double half = student_quantile((1 + confidence) / 2, freedom) * standard_error(values);
  out.low = out.estimate - half;
  out.high = out.estimate + half;
  return out;
}

Interval bootstrap_interval(std::span<const double> values, double confidence, uint64_t seed,
                            uint32_t resamples) {
  Interval out{.estimate = mean_of(values), .confidence = confidence};
  if (values.size() < 4) return out;
  RandomDraws draws(seed);
  std::vector<double> resample(values.size()), t;
  for (uint32_t i = 0; i < resamples; ++i) {
    for (double& value : resample) value = values[draws.below(values.size())];
    // Of few values a resample may repeat one alone; it has no t.
    const double error = standard_error(resample);
    if (error > 0) t.push_back((mean_of(resample) - out.estimate) / error);
  }
  const double error = standard_error(values);
  const double tail = (1 - confidence) / 2;
  out.low = out.estimate - quantile(t, 1 - tail) * error;
  out.high = out.estimate - quantile(t, tail) * error;
  return out;
}

Interval difference_interval(std::span<const double> a, std::span<const double> b,
                             double confidence) {
  Interval out{.estimate = mean_of(b) - mean_of(a), .confidence = confidence};
  if (a.size() < 2 || b.size() < 2) return out;
  const double va = std::pow(standard_error(a), 2), vb = std::pow(standard_error(b), 2);
  if (va + vb == 0) {
    out.low = out.high = out.estimate;
    return out;
  }
  const double freedom =
      (va + vb) * (va + vb) /
      (va * va / static_cast<double>(a.size() - 1) + vb * vb / static_cast<double>(b.size() - 1));
  const double half = student_quantile((1 + confidence) / 2, freedom) * std::sqrt(va + vb);
  out.low = out.estimate - half;
  out.high = out.estimate + half;
  return out;
}

Interval quantile_interval(std::span<const double> values, double q, double confidence) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  Interval out{.estimate = quantile(sorted, q), .confidence = confidence};
  const size_t n = sorted.size();
  const double tail = (1 - confidence) / 2;
  // The k-th smallest value lies above the quantile with the probability that fewer than k values
  // lie below it.
  for (size_t k = 1; k <= n; ++k) {
    const double fewer = binomial_cdf(static_cast<long>(k) - 1, n, q);
    if (fewer <= tail) out.low = sorted[k - 1];
    if (fewer >= 1 - tail) {
      out.high = sorted[k - 1];
      break;
    }
  }
  return out;
}

size_t samples_for_quantile(double q, double confidence) {
  const double rarer = std::max(q, 1 - q);
  return static_cast<size_t>(std::ceil(std::log((1 - confidence) / 2) / std::log(rarer)));
}

}  // namespace tenon
