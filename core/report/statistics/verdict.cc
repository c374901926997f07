#include "core/report/statistics/verdict.h"

#include <algorithm>
#include <numeric>

#include "core/report/statistics/distributions.h"

namespace tenon {
namespace {

// P(T > (mean - tested) / error).
double p_above(std::span<const double> values, double tested) {
  const double n = static_cast<double>(values.size());
  const double error = standard_deviation_of(values) / std::sqrt(n);
  const double distance = mean_of(values) - tested;
  if (error == 0) return distance > 0 ? 0 : 1;
  return 1 - student_cdf(distance / error, n - 1);
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::better:
      return "better";
    case Verdict::worse:
      return "worse";
    case Verdict::equivalent:
      return "equivalent";
    case Verdict::inconclusive:
      break;
  }
  return "inconclusive";
}

Verdict judge(const Interval& log_ratio, double margin, double floor, Better better) {
  const double bound = std::log1p(margin);
  if (log_ratio.low > -bound && log_ratio.high < bound) return Verdict::equivalent;
  if (log_ratio.low > floor) return better == Better::higher ? Verdict::better : Verdict::worse;
  if (log_ratio.high < -floor) return better == Better::higher ? Verdict::worse : Verdict::better;
  return Verdict::inconclusive;
}

double equivalence_p(std::span<const double> values, double margin) {
  if (values.size() < 2) return 1;
  return std::max(p_above(values, -margin), 1 - p_above(values, margin));
}

double difference_p(std::span<const double> values) {
  if (values.size() < 2) return 1;
  const double above = p_above(values, 0);
  return std::min(1.0, 2 * std::min(above, 1 - above));
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, p[order[i]] * static_cast<double>(order.size() - i));
    adjusted[order[i]] = std::min(1.0, largest);
  }
  return adjusted;
}

double bonferroni(double confidence, size_t count) {
  return 1 - (1 - confidence) / static_cast<double>(std::max<size_t>(1, count));
}

}  // namespace tenon
