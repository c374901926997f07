#include "core/report/statistics/sequence.h"

#include <algorithm>

namespace tenon {
namespace {

// The prior's variance of effect / standard deviation. It decides where the sequence is tightest,
// never whether it holds: with 4, between six and a dozen pairs.
constexpr double kPriorVariance = 4;

}  // namespace

double sequence_factor(size_t n, double confidence) {
  if (n < 2) return std::numeric_limits<double>::infinity();
  const double count = static_cast<double>(n), freedom = count - 1;
  const double r = 1 + count * kPriorVariance;
  // The martingale is r^(-1/2) ((1 + t²/ν) / (1 + t²/(ν r)))^(n/2); solved for t² at 1/α.
  const double q = std::exp(2 / count * (std::log(r) / 2 - std::log(1 - confidence)));
  if (q >= r) return std::numeric_limits<double>::infinity();
  return std::sqrt(freedom * (q - 1) / (1 - q / r));
}

Interval mean_sequence(std::span<const double> values, double confidence) {
  Interval out{.estimate = mean_of(values), .confidence = confidence};
  const double factor = sequence_factor(values.size(), confidence);
  if (!std::isfinite(factor)) return out;
  const double half =
      factor * standard_deviation_of(values) / std::sqrt(static_cast<double>(values.size()));
  out.low = out.estimate - half;
  out.high = out.estimate + half;
  return out;
}

Interval planned_interval(std::span<const double> values, double confidence, double looks,
                          bool at_end) {
  const double doubt = 1 - confidence;
  Interval out = mean_sequence(values, 1 - looks * doubt);
  if (at_end && looks < 1) {
    const Interval last = mean_interval(values, 1 - (1 - looks) * doubt);
    out.low = std::max(out.low, last.low);
    out.high = std::min(out.high, last.high);
  }
  out.confidence = confidence;
  return out;
}

}  // namespace tenon
