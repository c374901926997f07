#include "core/report/statistics/steady.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "core/report/statistics/distributions.h"
#include "core/report/statistics/interval.h"

namespace tenon {

namespace {

// How many pairs rise in their order less how many fall, in n log n steps: a tree of counts by rank
// (Fenwick 1994) says how many earlier values are below and above each.
double rising_pairs(std::span<const double> values, const std::map<double, size_t>& ties) {
  std::map<double, size_t> ranks;  // from 1
  for (const auto& [value, times] : ties) ranks[value] = ranks.size() + 1;
  std::vector<size_t> tree(ranks.size() + 1);
  const auto up_to = [&tree](size_t rank) {
    size_t count = 0;
    for (; rank > 0; rank &= rank - 1) count += tree[rank];
    return count;
  };
  double rising = 0;
  for (size_t earlier = 0; earlier < values.size(); ++earlier) {
    const size_t rank = ranks.at(values[earlier]);
    rising += static_cast<double>(up_to(rank - 1)) - static_cast<double>(earlier - up_to(rank));
    for (size_t i = rank; i < tree.size(); i += i & (~i + 1)) ++tree[i];
  }
  return rising;
}

}  // namespace

size_t warm_up_of(std::span<const double> values, size_t batch) {
  if (batch == 0 || values.size() < 2 * batch) return 0;
  std::vector<double> means;
  for (size_t i = 0; i + batch <= values.size(); i += batch) {
    means.push_back(mean_of(values.subspan(i, batch)));
  }
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t cut = 0; cut <= means.size() / 2 && cut < means.size(); ++cut) {
    const std::span<const double> rest = std::span<const double>(means).subspan(cut);
    const double mean = mean_of(rest);
    double squares = 0;
    for (const double value : rest) squares += (value - mean) * (value - mean);
    const double n = static_cast<double>(rest.size());
    if (const double error = squares / (n * n); error < least) {
      least = error;
      best = cut;
    }
  }
  return best * batch;
}

Trend trend_of(std::span<const double> values) {
  const size_t n = values.size();
  if (n < 8) return {};
  std::map<double, size_t> ties;
  for (const double value : values) ++ties[value];
  const double count = static_cast<double>(n);
  double variance = count * (count - 1) * (2 * count + 5), tied = 0;
  for (const auto& [value, equal] : ties) {
    const double times = static_cast<double>(equal);
    variance -= times * (times - 1) * (2 * times + 5);
    tied += times * (times - 1) / 2;
  }
  if (variance <= 0) return {};
  const double pairs = count * (count - 1) / 2;
  const double rising = rising_pairs(values, ties);
  const double z = rising / std::sqrt(variance / 18);
  return {rising / std::sqrt(pairs * (pairs - tied)), 2 * normal_cdf(-std::abs(z))};
}

bool is_saturated(std::span<const double> waits) {
  const Trend trend = trend_of(waits);
  if (trend.p >= 0.01 || trend.tau <= 0) return false;
  const size_t third = waits.size() / 3;
  return mean_of(waits.last(third)) >= 2 * mean_of(waits.first(third));
}

}  // namespace tenon
