// What a step of so many rows takes, learned from the steps that were run.
//
// Two things change at different paces: how the time grows with the rows (the shape, kept for each
// number of rows), and how fast the machine is just now (one factor). Both are geometric means: on
// a busy machine arithmetic ones of quotients drift apart, and what was not tried for long looks
// cheap. Steps that compute prompts are left out: only rows that are sampled from compare.
#pragma once

#include <tenon/drafter.h>

#include <array>
#include <cstdint>
#include <span>

namespace tenon::sdk {

class StepTimes {
 public:
  // `depth`: the most drafts that a sequence was given in this step. `usual`: the drafter's time is
  // what so many drafts take; not so where a draft model first had to read a prompt.
  void learn(const DraftStepCost& cost, uint32_t depth, bool usual);

  // What was measured before the first step, to begin with.
  void begin_with(std::span<const StepCost> costs);

  // Whether `of` means anything yet.
  bool known() const { return pace_ > 0; }

  // A step of `rows` rows in which some sequence has `depth` drafts, in nanoseconds.
  double of(double rows, uint32_t depth) const;
  // Of that, what the drafter takes.
  double drafting(uint32_t depth) const { return resting_.value + level_.value * depth; }

 private:
  static constexpr double kShapePace = 0.003;
  static constexpr double kPacePace = 0.1;
  static constexpr double kLevelPace = 0.03;
  static constexpr uint32_t kFirst = 4;
  // Steps that what was measured before the first one counts for.
  static constexpr uint32_t kMeasured = 100;
  // As long as nothing is known: rows beyond those that were seen add this much each, relative to
  // a step of as many rows. Decoding is mostly waiting for weights.
  static constexpr double kFreeRows = 24;
  static constexpr uint32_t kExact = 64;   // rows with an entry of their own
  static constexpr uint32_t kCoarse = 16;  // rows that share one after these
  static constexpr uint32_t kEntries = 128;

  struct Entry {
    double shape = 0;
    uint32_t seen = 0;
  };

  static uint32_t index_of(uint32_t rows);
  static double rows_of(uint32_t index);

  // Between numbers of rows that were seen in proportion. After them as steeply as from the lowest
  // to the highest of them, or by the rule above where that is steeper. Below them as little as can
  // be: what looks cheap is tried, and then known.
  double shape_of(double rows) const;

  // A geometric mean as well: neither high nor low times count for more, or what a drafter takes on
  // a busy machine would look less than it is next to what a step takes.
  struct Mean {
    double value = 0;
    uint32_t seen = 0;
    void learn(double time);
  };

  // A drafter's time in steps without drafts, and for each level of drafts.
  void learn_drafter(double time, uint32_t depth);

  std::array<Entry, kEntries> entries_;  // [0] is not used
  double pace_ = 0;
  uint32_t steps_ = 0;
  uint32_t measured_rows_ = 0;  // the most that were measured before the first step
  Mean resting_;
  Mean level_;
};

}  // namespace tenon::sdk
