#include "core/report/statistics/units.h"

#include <map>
#include <set>
#include <span>

#include "core/report/statistics/interval.h"

namespace tenon {

size_t starts_of(const PiecePairs& pairs) {
  std::set<uint32_t> starts;
  for (const auto& [first, second] : pairs.like) starts.insert(second->process);
  return starts.size();
}

PairValues values_of(const PiecePairs& pairs, const Metric& metric, const MeasuredPlan& plan) {
  PairValues out;
  std::map<uint32_t, std::vector<double>> of_start;
  for (const auto& [first, second] : pairs.like) {
    const auto x = value_of(metric, *first, plan), y = value_of(metric, *second, plan);
    if (!x || !y) continue;
    out.base.push_back(*x);
    out.arm.push_back(*y);
    const std::vector<double> ratio = log_ratios(std::span(&*x, 1), std::span(&*y, 1));
    if (ratio.empty()) continue;
    out.log_ratios.push_back(ratio.front());
    of_start[second->process].push_back(ratio.front());
  }
  out.of_few_starts = plan.restart_affordable && of_start.size() < kFewestStarts;
  if (plan.restart == 0 && (!plan.restart_affordable || out.of_few_starts)) {
    out.units = out.log_ratios;
  } else {
    for (const auto& [start, ratios] : of_start) out.units.push_back(mean_of(ratios));
  }
  return out;
}

}  // namespace tenon
