#include "core/report/statistics/fail_rule.h"

#include <algorithm>
#include <cmath>

#include "core/base/number.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {
namespace {

Status no_rule(std::string_view text, const std::string& why) {
  return invalid_argument(
      "--fail-if " + in_quotes(text) + ": " + why +
      " – expected ARM.METRIC > FACTOR * BASE, for example b.ttft_p50 > 1.05 * a");
}

std::string names_of_metrics() {
  std::vector<std::string> names;
  for (const Metric& metric : metrics()) names.emplace_back(metric.name);
  return join(names);
}

// [NUMBER *] BASE
Status read_right(std::string_view text, std::string_view right, FailRule& rule) {
  const size_t star = right.find('*');
  rule.base = trim(star == right.npos ? right : right.substr(star + 1));
  if (star == right.npos) return {};
  const WrittenNumber written = written_number(trim(right.substr(0, star)));
  const NumberSpec spec = {.name = "the factor", .min = 0, .max = 1e6, .above_min = true};
  if (const std::string fault = number_fault(spec, written); !fault.empty()) {
    return no_rule(text, fault);
  }
  rule.factor = as_real(written);
  return {};
}

}  // namespace

Result<FailRule> parse_fail_rule(std::string_view text) {
  FailRule rule{.text = std::string(text)};
  const size_t sign = text.find_first_of("<>");
  if (sign == text.npos) return no_rule(text, "there is no '>' and no '<'");
  rule.above = text[sign] == '>';
  const std::string_view left = trim(text.substr(0, sign));
  const size_t point = left.rfind('.');
  if (point == left.npos || point == 0) return no_rule(text, "there is no ARM.METRIC on the left");
  rule.arm = left.substr(0, point);
  rule.metric = find_metric(left.substr(point + 1));
  if (rule.metric == nullptr) {
    return no_rule(text, in_quotes(left.substr(point + 1)) + " is no metric (there are " +
                             names_of_metrics() + ")");
  }
  const std::string_view right = trim(text.substr(sign + 1));
  if (right.empty() || right.ends_with('*')) return no_rule(text, "nothing stands on the right");
  TENON_RETURN_IF_ERROR(read_right(text, right, rule));
  return rule;
}

Status check_names(const FailRule& rule, std::span<const std::string> arms) {
  if (arms.empty()) return no_rule(rule.text, "no arm was started");
  const std::span<const std::string> others = arms.subspan(1);
  if (std::find(others.begin(), others.end(), rule.arm) == others.end()) {
    return no_rule(rule.text, "there is no arm " + in_quotes(rule.arm) + " (there are " +
                                  join({others.begin(), others.end()}) + ")");
  }
  if (rule.base == arms.front()) return {};
  return no_rule(rule.text,
                 "the base is called " + in_quotes(arms.front()) + ", not " + in_quotes(rule.base));
}

Result<Rule> check(const FailRule& rule, const MeasuredComparison& measured,
                   const Analysis& analysis) {
  std::vector<std::string> names;
  for (const MeasuredArm& arm : measured.arms) names.push_back(arm.name);
  TENON_RETURN_IF_ERROR(check_names(rule, names));
  for (const ArmResult& arm : analysis.arms) {
    if (arm.arm->name != rule.arm) continue;
    if (arm.different_answers) return Rule::broken;
    const MetricResult& result = *arm.find(rule.metric->name);
    if (result.arm_has_none) return rule.above ? Rule::kept : Rule::broken;
    const Interval ratio = result.log_ratio;
    const double bound = std::log(rule.factor);
    if (rule.above ? ratio.low > bound : ratio.high < bound) return Rule::broken;
    return (rule.above ? ratio.high <= bound : ratio.low >= bound) ? Rule::kept : Rule::open;
  }
  return Rule::open;
}

bool waits_for_pairs(const FailRule& rule, const MeasuredComparison& measured,
                     const Analysis& analysis) {
  const Result<Rule> found = check(rule, measured, analysis);
  if (!found.ok() || *found != Rule::open) return false;
  return std::any_of(analysis.arms.begin(), analysis.arms.end(), [&](const ArmResult& arm) {
    return arm.arm->name == rule.arm && arm.find(rule.metric->name)->absent.empty();
  });
}

}  // namespace tenon
