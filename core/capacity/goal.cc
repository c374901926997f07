#include "core/capacity/goal.h"

#include "core/report/pages/format.h"
#include "core/report/statistics/goodput.h"
#include "core/report/statistics/written_bounds.h"

namespace tenon::capacity {

MeasuredPlan Goal::bounds() const {
  MeasuredPlan plan;
  plan.slo_ttft_ms = static_cast<double>(ttft_ns) * 1e-6;
  plan.slo_gap_ms = static_cast<double>(gap_ns) * 1e-6;
  plan.slo_share = share;
  return plan;
}

std::string Goal::words() const {
  return bounds_text(bounds()) + format(", at %.4g requests a second", rate);
}

Result<Goal> parse_goal(std::string_view text) {
  TENON_ASSIGN_OR_RETURN(const WrittenBounds bounds, parse_bounds(text, "the goal"));
  return Goal{.ttft_ns = bounds.ttft_ns, .gap_ns = bounds.gap_ns, .share = bounds.share};
}

}  // namespace tenon::capacity
