// The search of the highest rate that keeps the bounds (`--goodput`), of each arm in every block.
#include <algorithm>
#include <cmath>

#include "core/compare/experiment.h"
#include "core/report/statistics/goodput.h"
#include "core/report/statistics/requests_summary.h"
#include "core/workload/draw.h"

namespace tenon::compare {

// Requests answered a second where all arrive at once, of the latest warm-up: half of it is where
// an arm's first search starts; later ones start at what the one before found.
double Experiment::start_rate(const std::string& arm) const {
  const std::vector<RateFound> found = rates_found(measured_, arm);
  if (!found.empty() && found.back().bracket.bounded()) return found.back().bracket.middle();
  double rate = 1;
  for (const MeasuredPiece& piece : measured_.pieces) {
    if (piece.kind != PieceKind::warm_up || piece.arm != arm || piece.seconds <= 0) continue;
    rate = static_cast<double>(request_count(piece)) / piece.seconds / 2;
  }
  return rate;
}

// The same times for every arm and every rate of a block, but for the scale; others in each block.
std::vector<int64_t> Experiment::arrivals_at(double rate, uint32_t block) const {
  WorkloadDraw draw(comparison_.seed + block);
  std::vector<int64_t> arrivals(arrivals_ns_.size());
  double next_ns = 0;
  for (int64_t& arrival : arrivals) {
    arrival = std::llround(next_ns / rate);
    next_ns += static_cast<double>(draw.gap_ns(1, comparison_.burstiness));
  }
  return arrivals;
}

Result<bool> Experiment::search(Arm& arm, uint32_t block) {
  RateSearch search(start_rate(arm.described().name), comparison_.probes);
  while (const std::optional<double> rate = search.next()) {
    if (interrupted()) return false;
    const std::vector<int64_t> arrivals = arrivals_at(*rate, block);
    TENON_ASSIGN_OR_RETURN(const bool done, measure(arm, {.kind = PieceKind::probe,
                                                          .block = block,
                                                          .rate = *rate,
                                                          .arrivals_ns = &arrivals}));
    if (!done) return false;
    search.add(keeps_bounds(measured_.pieces.back(), measured_.plan));
  }
  return true;
}

// A quantile of fewer requests than that is the largest of them.
Status Experiment::check_requests() const {
  const auto needed = static_cast<size_t>(std::lround(1 / (1 - comparison_.slo_share)));
  if (comparison_.probes == 0 || arrivals_ns_.size() >= needed) return {};
  return invalid_argument("the workload has " + std::to_string(arrivals_ns_.size()) +
                          " requests – a share of " + std::to_string(comparison_.slo_share) +
                          " of them needs " + std::to_string(needed) +
                          " at least – give it more, or ask for a smaller share");
}

}  // namespace tenon::compare
