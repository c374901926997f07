// `--fail-if 'b.ttft_p99 > 1.05 * a'`: a difference that must not be.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/report/analysis.h"

namespace tenon {

struct FailRule {
  std::string text = {};
  std::string arm = {};
  const Metric* metric = nullptr;
  bool above = true;  // fails where arm / base is above `factor`, else below
  double factor = 1;
};

// ARM.METRIC > [NUMBER *] BASE, or with <. Errors name what was expected.
Result<FailRule> parse_fail_rule(std::string_view text);

enum class Rule : uint8_t { kept = 0, broken = 1, open = 2 };
// Broken where the whole interval of the ratio lies beyond the factor, kept where all of it lies
// within, open where it holds both. Arms whose answers differ break every rule. Error: no such arm.
Result<Rule> check(const FailRule& rule, const MeasuredComparison& measured,
                   const Analysis& analysis);

}  // namespace tenon
