#include "core/report/statistics/metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/statistics.h"
#include "core/report/statistics/goodput.h"
#include "core/report/statistics/interval.h"
#include "core/report/statistics/requests_summary.h"

namespace tenon {
namespace {

constexpr Metric kMetrics[] = {
    {"throughput", "tokens/s", Better::higher, "tokens generated a second"},
    {"requests", "1/s", Better::higher, "requests answered a second"},
    {"goodput", "1/s", Better::higher, "requests a second that kept every bound"},
    {"goodput_rate", "1/s", Better::higher, "highest rate of arrivals that keeps every bound"},
    {"ttft_mean", "ms", Better::lower, "time to the first token, mean"},
    {"ttft_p50", "ms", Better::lower, "time to the first token, median", 0.5},
    {"ttft_p90", "ms", Better::lower, "time to the first token, 90 %", 0.9},
    {"ttft_p99", "ms", Better::lower, "time to the first token, 99 %", 0.99},
    {"gap_p50", "ms", Better::lower, "time between tokens, median"},
    {"gap_p99", "ms", Better::lower, "time between tokens, 99 %"},
    {"tpot_mean", "ms", Better::lower, "time a token of each request, mean"},
    {"latency_mean", "ms", Better::lower, "whole answer, mean"},
    {"latency_p50", "ms", Better::lower, "whole answer, median", 0.5},
    {"latency_p90", "ms", Better::lower, "whole answer, 90 %", 0.9},
    {"latency_p99", "ms", Better::lower, "whole answer, 99 %", 0.99},
};

std::vector<double> column(const MeasuredPiece& piece, double RequestRow::*member) {
  std::vector<double> values;
  for (const RequestRow& row : piece.requests) {
    // An answer of one token has no time a token.
    const bool has_none = member == &RequestRow::tpot_ms && row.tokens < 2 && row.tpot_ms <= 0;
    if (row.ttft_ms >= 0 && !has_none) values.push_back(row.*member);
  }
  return values;
}

size_t needed(const Metric& metric) {
  return metric.quantile == 0 ? 1 : static_cast<size_t>(std::lround(1 / (1 - metric.quantile)));
}

std::optional<double> rate_of(std::string_view name, const MeasuredPiece& piece,
                              const MeasuredPlan& plan) {
  if (piece.seconds <= 0) return std::nullopt;
  if (name == "throughput") return static_cast<double>(piece.generated_tokens) / piece.seconds;
  if (name == "requests") return static_cast<double>(request_count(piece)) / piece.seconds;
  if (name != "goodput") return std::nullopt;
  if (plan.slo_ttft_ms == 0 && plan.slo_gap_ms == 0) return std::nullopt;
  const auto kept = std::count_if(piece.requests.begin(), piece.requests.end(),
                                  [&](const RequestRow& row) { return within_bounds(row, plan); });
  return static_cast<double>(kept) / piece.seconds;
}

std::optional<double> of_requests(const Metric& metric, const MeasuredPiece& piece) {
  double RequestRow::*member = metric.name.starts_with("ttft")   ? &RequestRow::ttft_ms
                               : metric.name.starts_with("tpot") ? &RequestRow::tpot_ms
                                                                 : &RequestRow::latency_ms;
  const std::vector<double> values = column(piece, member);
  if (values.size() < needed(metric)) return std::nullopt;
  return metric.quantile == 0 ? mean_of(values) : quantile(values, metric.quantile);
}

}  // namespace

double distance_of(const MachineState& a, const MachineState& b) {
  double most = 0;
  const auto compare = [&](double x, double y) {
    if (x > 0 && y > 0) most = std::max(most, std::abs(std::log(x / y)));
  };
  compare(a.read_gbps, b.read_gbps);
  compare(a.fma_gflops, b.fma_gflops);
  compare(a.processor_share, b.processor_share);
  return most;
}

std::string_view piece_kind_name(PieceKind kind) {
  constexpr std::string_view kNames[] = {"warm_up", "noise", "measured", "probe"};
  return kNames[static_cast<size_t>(kind)];
}

Quantiles quantiles_of(const std::vector<double>& values) {
  return {mean_of(values),        quantile(values, 0.5), quantile(values, 0.9),
          quantile(values, 0.99), quantile(values, 1),   values.size()};
}

std::span<const Metric> metrics() {
  return kMetrics;
}

const Metric* find_metric(std::string_view name) {
  const auto* found = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                   [&](const Metric& metric) { return metric.name == name; });
  return found == std::end(kMetrics) ? nullptr : found;
}

std::optional<double> value_of(const Metric& metric, const MeasuredPiece& piece,
                               const MeasuredPlan& plan) {
  if (piece.summary) {
    const auto found = piece.summary->values.find(std::string(metric.name));
    return found == piece.summary->values.end() ? std::nullopt : std::optional(found->second);
  }
  if (metric.better == Better::higher) return rate_of(metric.name, piece, plan);
  if (!metric.name.starts_with("gap")) return of_requests(metric, piece);
  const bool tail = metric.name == "gap_p99";
  if (piece.gap_ms.count < (tail ? 100u : 1u)) return std::nullopt;
  return tail ? piece.gap_ms.p99 : piece.gap_ms.p50;
}

std::string why_absent(const Metric& metric, const MeasuredPiece& piece, const MeasuredPlan& plan) {
  if (metric.name == "goodput" && plan.slo_ttft_ms == 0 && plan.slo_gap_ms == 0) {
    return "no bound is given (slo)";
  }
  if (metric.name == "goodput_rate") return "was not searched (goodput)";
  if (metric.name.starts_with("gap")) {
    return std::string(metric.name == "gap_p99" ? "needs 100 gaps" : "needs gaps") +
           " between tokens in a piece; there are " + std::to_string(piece.gap_ms.count);
  }
  if (metric.name.starts_with("tpot") && request_count(piece) > 0) {
    return "needs answers of two tokens and more; there are none";
  }
  return "needs " + std::to_string(needed(metric)) + " requests in a piece; there are " +
         std::to_string(request_count(piece));
}

}  // namespace tenon
