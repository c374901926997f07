// The highest rate of arrivals at which requests keep their bounds, searched by probes: pieces at
// one rate each.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/report/statistics/measured.h"

namespace tenon {

// What a search knows: the bounds are kept at `kept` (0: at none), and no longer at `broken`
// (infinite: at all that were tried).
struct RateBracket {
  double kept = 0;
  double broken = std::numeric_limits<double>::infinity();
  uint32_t probes = 0;

  bool bounded() const { return kept > 0 && broken < std::numeric_limits<double>::infinity(); }
  double middle() const;      // geometric
  double half_width() const;  // log(broken / kept) / 2: what is not known of the middle's log
  void add(double rate, bool keeps);
};

// Doubles or halves a rate until the bracket is bounded, then halves it, geometrically.
class RateSearch {
 public:
  // `start` > 0 requests a second; so many probes in all.
  RateSearch(double start, uint32_t probes) : start_(start), probes_(probes) {}
  std::optional<double> next() const;  // null: no probe is left
  void add(bool keeps) { bracket_.add(*next(), keeps); }
  const RateBracket& bracket() const { return bracket_; }

 private:
  double start_;
  uint32_t probes_;
  RateBracket bracket_;
};

// The share of a piece's requests that kept every bound of the plan; of none 0.
double share_within_bounds(const MeasuredPiece& piece, const MeasuredPlan& plan);
bool within_bounds(const RequestRow& row, const MeasuredPlan& plan);
// Requests wait longer the later they come.
bool is_saturated(const MeasuredPiece& piece);
// At least the plan's share keeps the bounds, and the piece is not saturated: a longer one would
// break them.
bool keeps_bounds(const MeasuredPiece& probe, const MeasuredPlan& plan);

// An arm's search of one block, of its probes.
struct RateFound {
  uint32_t block = 0;
  RateBracket bracket = {};
  const MeasuredPiece *first = nullptr, *last = nullptr;
};
std::vector<RateFound> rates_found(const MeasuredComparison& measured, std::string_view arm);
// "base keeps them at 11.8 requests a second and no longer at 13.2, in 6 searches of 8 probes"; the
// widest of all its searches. Empty where none was made.
std::string rate_text(const MeasuredComparison& measured, std::string_view arm);
// "90 % of requests within ttft 500 ms, gap 50 ms"
std::string bounds_text(const MeasuredPlan& plan);

}  // namespace tenon
