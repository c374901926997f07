// The figures of a piece that arms are compared by.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/report/statistics/measured.h"
#include "core/report/statistics/verdict.h"

namespace tenon {

struct Metric {
  std::string_view name;
  std::string_view unit;
  Better better = Better::lower;
  std::string_view words;  // "time to the first token, median"
  // A quantile of a piece's requests; 0 = none. It needs 1 / (1 - quantile) of them at least: with
  // fewer it would be the largest value under another name.
  double quantile = 0;
};
std::span<const Metric> metrics();
const Metric* find_metric(std::string_view name);

// Null where the piece has no such figure: too few requests, no bound for goodput.
std::optional<double> value_of(const Metric& metric, const MeasuredPiece& piece,
                               const MeasuredPlan& plan);
// "needs 100 requests in a piece; there are 32"
std::string why_absent(const Metric& metric, const MeasuredPiece& piece, const MeasuredPlan& plan);

}  // namespace tenon
