// Pairs that somebody else measured: what may be said of two columns of numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/report/power.h"
#include "core/report/statistics/interval.h"
#include "core/report/statistics/verdict.h"

namespace tenon {

// Two figures a pair, of one kind and above 0, whose pieces ran one after the other.
struct GivenPairs {
  std::string base_name = "a", arm_name = "b";
  std::vector<double> base, arm;
};

// Lines "12.1,13.4": the base's figure, then the arm's. A first line of two words names them; empty
// lines and those that begin with # are left out. Errors: invalid_argument, with the line.
Result<GivenPairs> parse_pairs(std::string_view text);

struct PairsQuestion {
  Better better = Better::higher;
  double margin = kVerdictMargin, confidence = kVerdictConfidence;
  // `once`: how many pairs there would be was fixed before the first of them, so that Student's
  // narrower interval holds. `always`: somebody may have stopped when it looked good.
  Looks looks = Looks::always;
};

struct PairsAnswer {
  double base = 0, arm = 0;  // medians
  Interval log_ratio = {};   // of arm / base
  Verdict verdict = Verdict::inconclusive;
  // The log ratio that so many pairs of this spread can show with a probability of 80 %; infinite
  // where they show none.
  double detectable = 0;
  // The fewest pairs of this spread that show the margin; 0: more than 100,000.
  size_t pairs_for_margin = 0;
};

PairsAnswer judge_pairs(const GivenPairs& pairs, const PairsQuestion& question);

// "chunked is better than static: chunked / static +12 % [+9, +15] …", and what more pairs would
// say.
std::string pairs_report(const GivenPairs& pairs, const PairsQuestion& question,
                         const PairsAnswer& answer);

}  // namespace tenon
