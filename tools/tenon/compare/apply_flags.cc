// From the command line of `tenon compare` to a comparison.
#include <algorithm>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/compare/arms/weights.h"
#include "core/request/parameters.h"
#include "tools/tenon/compare/runs.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

using compare::Comparison;
using compare::ComparisonArm;

// One way of sending requests takes the place of another.
void take_loop(const CompareFlags& flags, Comparison& out) {
  if (!flags.in_flight && !flags.rate && flags.goodput.empty()) return;
  const Comparison none;
  out.in_flight = none.in_flight;
  out.rate = none.rate;
  if (flags.rate) return;
  out.burstiness = none.burstiness;
  out.scale = none.scale;
}

// What the command line says in place of the file.
Status apply(const CompareFlags& flags, Comparison& out) {
  const auto text = [](const std::string& from, std::string& to) {
    if (!from.empty()) to = from;
  };
  const auto number = [](const auto& from, auto& to) {
    if (from) to = *from;
  };
  const bool served = flags.base.starts_with("http://") || flags.base.starts_with("https://") ||
                      flags.base.starts_with("unix:");
  if (!flags.base.empty()) {
    // A server's model is the server's.
    if (served != !out.url.empty()) out.model.clear();
    out.url = served ? flags.base : "";
    out.base = served || flags.base == "default" ? "" : flags.base;
  }
  text(flags.authorities, out.authorities);
  text(flags.model, out.model);
  text(flags.workload, out.workload);
  text(flags.text, out.text);
  take_loop(flags, out);
  if (!flags.goodput.empty()) TENON_RETURN_IF_ERROR(compare::set_goodput(flags.goodput, out));
  text(flags.metric, out.metric);
  out.set.insert(out.set.end(), flags.settings.begin(), flags.settings.end());
  number(flags.pairs, out.pairs);
  number(flags.noise_pairs, out.noise_pairs);
  number(flags.restart, out.restart);
  number(flags.in_flight, out.in_flight);
  number(flags.max_tokens, out.max_tokens);
  number(flags.text_tokens, out.text_tokens);
  number(flags.text_window, out.text_window);
  number(flags.seed, out.seed);
  number(flags.rate, out.rate);
  number(flags.burstiness, out.burstiness);
  number(flags.scale, out.scale);
  number(flags.margin, out.margin);
  number(flags.confidence, out.confidence);
  number(flags.unlike, out.unlike);
  if (flags.may_differ) out.same_answers = false;
  if (flags.several) out.several = true;
  if (flags.count_waits) out.count_waits = true;
  if (!flags.cache.empty()) out.cache = *compare::parse_cache_state(flags.cache);
  if (!flags.budget.empty()) out.budget_ns = *parse_duration_ns(flags.budget);
  for (const std::string& arm : flags.arms) TENON_RETURN_IF_ERROR(compare::add_arm(arm, out));
  return {};
}

// Few pairs in little time, for a look at many comparisons.
void make_quick(Comparison& comparison) {
  comparison.pairs = std::min(comparison.pairs, 8u);
  comparison.noise_pairs = std::min(comparison.noise_pairs, 3u);
  comparison.budget_ns = std::min(comparison.budget_ns, int64_t{50} * 1'000'000'000);
}

}  // namespace

Result<Comparison> comparison_of(const CompareFlags& flags, const std::string& file) {
  Comparison comparison;
  if (!file.empty()) {
    TENON_ASSIGN_OR_RETURN(comparison, compare::read_comparison(file));
  }
  TENON_RETURN_IF_ERROR(apply(flags, comparison));
  if (flags.quick) make_quick(comparison);
  if (comparison.text.empty()) {
    TENON_ASSIGN_OR_RETURN(const std::string data, data_folder());
    comparison.text = data + "/configs/models/valid.txt";
  }
  TENON_RETURN_IF_ERROR(compare::check_comparison(comparison));
  TENON_RETURN_IF_ERROR(compare::check_weights(comparison));
  if (find_metric(comparison.metric) == nullptr) {
    std::vector<std::string> names;
    for (const Metric& metric : metrics()) names.emplace_back(metric.name);
    return invalid_argument(in_quotes(comparison.metric) + " is no metric; there are " +
                            join(names) + did_you_mean(comparison.metric, names));
  }
  return comparison;
}

Result<std::vector<FailRule>> rules_of(const CompareFlags& flags, const Comparison& comparison) {
  std::vector<std::string> names = {comparison.base_name};
  for (const ComparisonArm& arm : comparison.arms) names.push_back(arm.name);
  std::vector<FailRule> rules;
  for (const std::string& text : flags.fail_if) {
    TENON_ASSIGN_OR_RETURN(FailRule rule, parse_fail_rule(text));
    TENON_RETURN_IF_ERROR(check_names(rule, names));
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace tenon
