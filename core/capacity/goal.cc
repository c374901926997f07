#include "core/capacity/goal.h"

#include <set>

#include "core/base/number.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/report/pages/format.h"
#include "core/report/statistics/goodput.h"

namespace tenon::capacity {
namespace {

Status wrong(std::string_view text, const std::string& why) {
  return invalid_argument("the goal " + in_quotes(text) + ": " + why +
                          "; expected bounds such as ttft=500ms,gap=50ms and, if you like, "
                          "share=0.95");
}

}  // namespace

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
  Goal goal;
  std::set<std::string_view> seen;
  for (const std::string_view part : split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string_view key = trim(part.substr(0, equals));
    const std::string_view value = equals == part.npos ? "" : trim(part.substr(equals + 1));
    if (!seen.insert(key).second) return wrong(text, in_quotes(key) + " is there twice");
    if (key == "ttft" || key == "gap") {
      const auto bound = parse_duration_ns(value);
      if (!bound || *bound <= 0) return wrong(text, in_quotes(value) + " is no time above 0");
      (key == "ttft" ? goal.ttft_ns : goal.gap_ns) = *bound;
    } else if (key == "share") {
      const WrittenNumber written = written_number(value);
      const std::string fault = number_fault(real_number("share", 0.5, 0.999), written);
      if (!fault.empty()) return wrong(text, fault);
      goal.share = as_real(written);
    } else {
      return wrong(text, in_quotes(key) + " is no part of a goal");
    }
  }
  if (goal.ttft_ns == 0 && goal.gap_ns == 0) return wrong(text, "it bounds nothing");
  return goal;
}

}  // namespace tenon::capacity
