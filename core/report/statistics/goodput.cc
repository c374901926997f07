#include "core/report/statistics/goodput.h"

#include <algorithm>
#include <cmath>

#include "core/report/pages/format.h"
#include "core/report/statistics/requests_summary.h"
#include "core/report/statistics/steady.h"

namespace tenon {

double RateBracket::middle() const {
  return std::sqrt(kept * broken);
}
double RateBracket::half_width() const {
  return std::log(broken / kept) / 2;
}
void RateBracket::add(double rate, bool keeps) {
  ++probes;
  if (keeps) {
    kept = std::max(kept, rate);
  } else {
    broken = std::min(broken, rate);
  }
}

std::optional<double> RateSearch::next() const {
  if (bracket_.probes >= probes_) return std::nullopt;
  if (bracket_.bounded()) return bracket_.middle();
  if (bracket_.kept > 0) return 2 * bracket_.kept;
  return bracket_.probes > 0 ? bracket_.broken / 2 : start_;
}

bool within_bounds(const RequestRow& row, const MeasuredPlan& plan) {
  return row.ttft_ms >= 0 && (plan.slo_ttft_ms == 0 || row.ttft_ms <= plan.slo_ttft_ms) &&
         (plan.slo_gap_ms == 0 || row.longest_gap_ms <= plan.slo_gap_ms);
}

double share_within_bounds(const MeasuredPiece& piece, const MeasuredPlan& plan) {
  if (piece.summary) {
    const auto all = static_cast<double>(piece.summary->totals.requests);
    return static_cast<double>(piece.summary->kept) / all;
  }
  if (piece.requests.empty()) return 0;
  const auto kept = std::count_if(piece.requests.begin(), piece.requests.end(),
                                  [&](const RequestRow& row) { return within_bounds(row, plan); });
  return static_cast<double>(kept) / static_cast<double>(piece.requests.size());
}

bool is_saturated(const MeasuredPiece& piece) {
  if (piece.summary) return piece.summary->saturated;
  std::vector<const RequestRow*> rows;
  for (const RequestRow& row : piece.requests) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return a->arrival_ms < b->arrival_ms; });
  std::vector<double> waits;
  for (const RequestRow* row : rows) waits.push_back(row->ttft_ms);
  return is_saturated(waits);
}

bool keeps_bounds(const MeasuredPiece& probe, const MeasuredPlan& plan) {
  return share_within_bounds(probe, plan) >= plan.slo_share && !is_saturated(probe);
}

std::vector<RateFound> rates_found(const MeasuredComparison& measured, std::string_view arm) {
  std::vector<RateFound> out;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.kind != PieceKind::probe || piece.arm != arm) continue;
    if (out.empty() || out.back().block != piece.block) {
      out.push_back({.block = piece.block, .first = &piece});
    }
    out.back().last = &piece;
    out.back().bracket.add(piece.rate, keeps_bounds(piece, measured.plan));
  }
  // The last one may have been cut short.
  if (!out.empty() && out.back().bracket.probes < measured.plan.probes) out.pop_back();
  return out;
}

std::string rate_text(const MeasuredComparison& measured, std::string_view arm) {
  const std::vector<RateFound> found = rates_found(measured, arm);
  if (found.empty()) return "";
  double kept = std::numeric_limits<double>::infinity(), broken = 0;
  for (const RateFound& each : found) {
    kept = std::min(kept, each.bracket.kept);
    broken = std::max(broken, each.bracket.broken);
  }
  const std::string lower = kept > 0 ? format("keeps them at %.3g requests a second", kept)
                                     : std::string("keeps them at no rate that was tried");
  const std::string upper = std::isfinite(broken) ? format("no longer at %.3g", broken)
                                                  : std::string("at every rate that was tried");
  return std::string(arm) + " " + lower + " and " + upper + ", in " + std::to_string(found.size()) +
         " searches of " + std::to_string(measured.plan.probes) + " probes";
}

std::string bounds_text(const MeasuredPlan& plan) {
  std::string out = format("%.4g %% of requests within", 100 * plan.slo_share);
  if (plan.slo_ttft_ms > 0) out += format(" ttft %.4g ms", plan.slo_ttft_ms);
  if (plan.slo_gap_ms > 0) {
    out += format("%s gap %.4g ms", plan.slo_ttft_ms > 0 ? "," : "", plan.slo_gap_ms);
  }
  return out;
}

}  // namespace tenon
