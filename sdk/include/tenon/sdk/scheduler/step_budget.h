// How many tokens a step may have so that those who wait for their next token do not wait long:
// learned from what steps cost.
//
// Two curves of cost are kept, one over the number of sequences of steps without prompts, one over
// the rows of steps with prompts. A curve has a point for each power of two: the median of the last
// five such steps, so that a step in which the machine stalled moves nothing. Between points the
// cost is taken to grow evenly, and never to fall; a step with prompts costs no less than the one
// without. The budget is the largest number of rows whose cost stays within `target` times that of
// a step without prompts.
//
// Machines change their pace while they run. Where every step has prompts, one in 16 is asked to do
// without, one in four while the budget is at its least, so that both curves are of the same time.
// A point that no step has renewed while 256 others came is forgotten; rows that are not known are
// tried, up to twice the largest number known, so that one bad moment rules nothing out for ever.
// Same costs in, same budgets out: no clock is read here.
#pragma once

#include <tenon/scheduler.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace tenon::sdk {

class CostCurve {
 public:
  void add(uint32_t size, int64_t duration_ns);

  bool empty() const { return largest() == 0.0; }
  // The largest size that the curve knows.
  double largest() const;

  // Cost of a step of this size; 0 when nothing is known. Flat before the first point and, until
  // there are two, after it; after the last it goes on as between the last two.
  double duration_ns(double size) const;

  struct Anchor {
    double size = 0.0;
    double duration_ns = 0.0;
  };
  // As above, where the cost of one size is known already: points of smaller sizes do not count.
  double duration_ns(double size, Anchor from) const;

 private:
  static constexpr uint32_t kSamples = 5;
  static constexpr uint64_t kForget = 256;  // steps added to other points
  struct Sample {
    uint32_t size = 0;
    int64_t duration_ns = 0;
  };
  struct Point {
    std::array<Sample, kSamples> samples;
    uint64_t count = 0;
    uint64_t last = 0;  // value of added_
    double size = 0.0;  // medians
    double duration_ns = 0.0;
  };

  static double median(std::array<double, kSamples>& values, uint32_t count);

  static uint32_t bucket(uint32_t size) { return std::bit_width(std::max(size, 1u)) - 1; }

  std::array<Point, 32> points_;  // [i] for sizes of 2^i … 2^(i+1)-1
  uint64_t added_ = 0;
};

class StepBudget {
 public:
  explicit StepBudget(double target) : target_(target) {}

  void observe(const StepCost& cost);

  // Whether step `step_id` should be one without prompts. Yes is said once, then not for a while.
  bool ask_for_decoding_alone(uint64_t step_id, uint32_t decoding, uint32_t most);

  // Rows of a step in which `decoding` sequences get their next token; at most `most`. Where nobody
  // is kept waiting, there is no reason for less.
  uint32_t rows(uint32_t decoding, uint32_t most) const;

 private:
  static constexpr uint32_t kLeastPromptRows = 16;   // prompts never stand still
  static constexpr uint32_t kFirstPromptRows = 256;  // while nothing is known
  static constexpr uint64_t kAlone = 16;             // steps between those that are asked for
  static constexpr uint64_t kAloneAtLeast = 4;
  static constexpr uint32_t kGrain = 16;  // kernels like whole tiles

  // The most rows up to `highest` that cost no more than the target, though not less than the
  // least.
  uint64_t affordable(uint32_t decoding, uint64_t highest) const;

  double target_;
  CostCurve decoding_;      // over sequences
  CostCurve with_prompts_;  // over rows
  uint64_t last_step_ = 0;
  uint64_t last_alone_ = 0;  // without prompts, or asked to be
};

}  // namespace tenon::sdk
