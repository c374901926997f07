// What an interval of a log ratio allows to say. Never a bare number: one of four words.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/report/statistics/interval.h"

namespace tenon {

enum class Verdict : uint8_t { inconclusive = 0, better = 1, worse = 2, equivalent = 3 };
std::string_view verdict_name(Verdict verdict);

// What a verdict takes when nobody says otherwise. A sequence at 95 % calls A different from itself
// in up to one comparison of twenty; at 99 % twenty of them show two differences once in sixty
// times.
inline constexpr double kVerdictConfidence = 0.99;
inline constexpr double kVerdictMargin = 0.01;

enum class Better : uint8_t { higher = 0, lower = 1 };

// `log_ratio` is that of log(B / A). Equivalent: all of it lies within ±log(1 + margin), also where
// it leaves 0 out, because differences below the margin were declared not to matter. Better and
// worse: all of it lies on one side of ±floor, which is 0 or what A against A differed by.
Verdict judge(const Interval& log_ratio, double margin, double floor, Better better);

// Two one-sided t tests (Schuirmann 1987) of a mean within ±margin: the larger of the two p-values.
double equivalence_p(std::span<const double> values, double margin);
// Two-sided, of a mean of 0. 1 of fewer than two values.
double difference_p(std::span<const double> values);

// Holm's step-down adjustment: p-values that may each be held against the level of all together.
std::vector<double> holm(std::span<const double> p);
// The confidence that each of `count` intervals needs so that all hold together with `confidence`.
double bonferroni(double confidence, size_t count);

}  // namespace tenon
