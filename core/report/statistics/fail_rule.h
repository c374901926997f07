// `--fail-if 'b.ttft_p99 > 1.05 * a'`: a difference that must not be.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/report/statistics/analysis.h"

namespace tenon {

struct FailRule {
  std::string text = {};
  std::string arm = {};
  std::string base = {};
  const Metric* metric = nullptr;
  bool above = true;  // fails where arm / base is above `factor`, else below
  double factor = 1;
};

// ARM.METRIC > [NUMBER *] BASE, or with <. Errors name what was expected.
Result<FailRule> parse_fail_rule(std::string_view text);

// Before anything is measured. Errors: `arms` (the base first) have none of the rule's names.
Status check_names(const FailRule& rule, std::span<const std::string> arms);

enum class Rule : uint8_t { kept = 0, broken = 1, open = 2 };
// Broken where the whole interval of the ratio lies beyond the factor, kept where all of it lies
// within, open where it holds both or nothing was measured. Arms whose answers differ break every
// rule. Errors: those of check_names().
Result<Rule> check(const FailRule& rule, const MeasuredComparison& measured,
                   const Analysis& analysis);

// Whether more pairs could still tell: a rule that is open, of a figure that pieces have. What they
// do not have (too few requests for a tail) no pair brings.
bool waits_for_pairs(const FailRule& rule, const MeasuredComparison& measured,
                     const Analysis& analysis);

}  // namespace tenon
