// One server at several loads (`tenon load --sweep`): how latency grows with throughput, where more
// load stops being worth it, and where it can be borne no longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/report/statistics/interval.h"
#include "core/report/statistics/measured.h"

namespace tenon {

enum class SweepOf : uint8_t { rate, concurrency };
std::string_view sweep_word(SweepOf what);  // "rate", "concurrency"

// What is swept, and its values, rising.
struct SweepRange {
  SweepOf what = SweepOf::rate;
  std::vector<double> values;
};
// "rate=1..20": 1, 2, 4, 8, 16 and 20, each twice the one before; "concurrency=1,6,30": those.
// Rates are requests a second, concurrencies whole numbers. Error: what it must be.
Result<SweepRange> parse_sweep(std::string_view text);

struct SweepPoint {
  double load = 0;               // requests a second, or at once
  double tokens_per_second = 0;  // answered
  double requests_per_second = 0;
  Interval ttft_ms, latency_ms;  // medians, with intervals of 95 % over requests or pieces
  double gap_ms = 0;             // median
  size_t answered = 0, failed = 0;
  bool queue_grows = false;  // an open loop whose later requests waited longer
};

struct Sweep {
  std::string name;  // "chunked", or the server's address
  SweepOf what = SweepOf::rate;
  std::vector<SweepPoint> points;  // by rising load
};

// An arm of a comparison that was measured at this load: means over its pieces, with Student's
// intervals.
SweepPoint measured_point(const MeasuredComparison& measured, std::string_view arm, double load);

// The point with the most throughput for its latency (Kleinrock's power: requests a second, divided
// by the median latency). Null if fewer than three points were answered, or it is the last: then
// the sweep ended before the bend.
std::optional<size_t> knee_of(const Sweep& sweep);
// The first point at which the server does no more: in an open loop, later requests wait longer
// than earlier ones; in a closed one, throughput is at most 5 % above the best of the points
// before, though the load is at least half as much again.
std::optional<size_t> saturation_of(const Sweep& sweep);

// A line a point, and below it where the knee is and what is saturated.
std::string sweep_text(const Sweep& sweep);

}  // namespace tenon
