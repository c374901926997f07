// The point of a comparison's arm on its curve.
#include <algorithm>

#include "core/report/statistics/goodput.h"
#include "core/report/statistics/metrics.h"
#include "core/report/statistics/requests_summary.h"
#include "core/report/sweep.h"

namespace tenon {
namespace {

constexpr double kConfidence = 0.95;

// The mean of a metric over the pieces, with Student's interval.
Interval mean_over(const std::vector<const MeasuredPiece*>& pieces, std::string_view name,
                   const MeasuredPlan& plan) {
  std::vector<double> values;
  for (const MeasuredPiece* piece : pieces) {
    const auto value = value_of(*find_metric(name), *piece, plan);
    if (value) values.push_back(*value);
  }
  if (values.empty()) return {};
  return values.size() > 1 ? mean_interval(values, kConfidence)
                           : Interval{.estimate = values.front(), .confidence = kConfidence};
}

}  // namespace

SweepPoint measured_point(const MeasuredComparison& measured, std::string_view arm, double load) {
  std::vector<const MeasuredPiece*> pieces;
  size_t saturated = 0;
  double seconds = 0;
  SweepPoint point;
  point.load = load;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.kind != PieceKind::measured || piece.arm != arm) continue;
    pieces.push_back(&piece);
    saturated += is_saturated(piece) ? 1 : 0;
    seconds += piece.seconds;
    point.answered += request_count(piece);
  }
  if (seconds > 0) {
    point.requests_per_second = static_cast<double>(point.answered) / seconds;
  }
  point.tokens_per_second = mean_over(pieces, "throughput", measured.plan).estimate;
  point.ttft_ms = mean_over(pieces, "ttft_p50", measured.plan);
  point.latency_ms = mean_over(pieces, "latency_p50", measured.plan);
  point.gap_ms = mean_over(pieces, "gap_p50", measured.plan).estimate;
  point.queue_grows = measured.plan.open_loop && 2 * saturated > pieces.size();
  return point;
}

}  // namespace tenon
