// What may be said of what was measured.
#pragma once

#include <string>
#include <vector>

#include "core/report/statistics/attribution.h"
#include "core/report/statistics/measured.h"
#include "core/report/statistics/metrics.h"
#include "core/report/statistics/verdict.h"

namespace tenon {

// So many values of an interval: pairs, or starts of all arms.
struct PlannedUnits {
  size_t count = 0;
  bool starts = false;
};

// A against A: two processes of the same pipeline.
struct NoiseFloor {
  size_t pairs = 0, dropped = 0;
  Interval log_ratio = {};  // of the primary metric, Student's
  double deviation = 0;     // of a pair's log ratio
  // What a difference must be beyond: 0 where A against A shows none.
  double floor = 0;
  PlannedUnits planned = {};
  double detectable = 0;  // the log ratio that so many can show; infinite: they show none
};

struct MetricResult {
  const Metric* metric = nullptr;
  std::vector<double> log_ratios = {};  // of the pairs
  size_t units = 0;  // of the interval: pairs, or starts of all arms where there were several
  bool of_few_starts = false;  // PairValues
  double deviation = 0;        // of a unit's log ratio
  Interval log_ratio = {};     // the sequence, corrected for the number of arms
  double base = 0, arm = 0;    // geometric means over the pieces of the pairs
  Verdict verdict = Verdict::inconclusive;
  std::string absent = {};  // why there is none
  // In every pair the base has some of what is counted and the arm none: no ratio, and all the same
  // certain.
  bool arm_has_none = false;
};

struct ArmResult {
  const MeasuredArm* arm = nullptr;
  size_t pairs = 0, dropped = 0;
  bool same_numerics = true;
  bool different_answers = false;
  std::string answers = {};  // "equal", or what differs first, or why they were not compared
  std::vector<MetricResult> metrics = {};
  std::vector<std::string> why = {};          // largest first
  std::vector<std::string> machine_use = {};  // what each phase needs, and its part of the limit
  std::vector<std::string> notes = {};

  const MetricResult* find(std::string_view metric) const;
};

struct Analysis {
  NoiseFloor noise = {};
  double confidence = 0;             // of each interval
  std::vector<ArmResult> arms = {};  // in addition to the base
  std::vector<std::string> notes = {};
};

// `planned` is what the noise floor's `detectable` is for; none: what was measured.
Analysis analyse(const MeasuredComparison& measured, PlannedUnits planned = {});

// Pairs of pieces of one kind: the base's and the arm's of the same block.
struct PiecePairs {
  std::vector<std::pair<const MeasuredPiece*, const MeasuredPiece*>> like;
  size_t dropped = 0;  // in unlike states of the machine
};
PiecePairs pairs_of(const MeasuredComparison& measured, std::string_view arm);
PiecePairs noise_pairs_of(const MeasuredComparison& measured);

// "KL 0.0012 nats a token [0.0008, 0.0016] (99 %: 0.02), …": what an arm's predictions of a text
// are worth, with intervals over its windows. Empty where it was not judged.
std::string fidelity_text(const Fidelity& fidelity, double confidence);

// "+12.3 %" of a log ratio.
std::string percent_text(double log_ratio);
// "+12.3 % [+10.1, +14.5]"; "?" for an unbounded side.
std::string percent_text(const Interval& log_ratio);

}  // namespace tenon
