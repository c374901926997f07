// What users are promised: bounds that a share of requests keeps at a rate of arrivals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/report/statistics/measured.h"

namespace tenon::capacity {

struct Goal {
  int64_t ttft_ns = 0;  // until the first token; 0 = no bound
  int64_t gap_ns = 0;   // the longest between two tokens of a request; likewise
  double share = 0.9;   // of requests that keep both
  double rate = 0;      // requests a second, of all users together

  // As comparisons have it.
  MeasuredPlan bounds() const;
  // "90 % of requests within ttft 500 ms, gap 50 ms, at 20 requests a second"
  std::string words() const;
};

// As parse_bounds, without a rate.
Result<Goal> parse_goal(std::string_view text);

}  // namespace tenon::capacity
