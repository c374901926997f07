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
#include <utility>

namespace tenon::sdk {

class StepTimes {
 public:
  // `depth`: the most drafts that a sequence was given in this step. `usual`: the drafter's time is
  // what so many drafts take; not so where a draft model first had to read a prompt. `asked`: the
  // step was run to see what so many rows take, among many steps of another number. It says nothing
  // of the machine's pace, which the others tell, and counts for more than one of them.
  void learn(const DraftStepCost& cost, uint32_t depth, bool usual, bool asked = false);

  // Whether the step that was asked for last came as a surprise. Either what was known of so many
  // rows is wrong, or something held it up: nothing changes before it is asked for once more. Says
  // so once.
  bool take_doubt() { return std::exchange(doubts_, false); }
  // Whether the same surprise came twice, and so many rows are cheaper than was known. Says so
  // once.
  bool take_cheaper() { return std::exchange(cheaper_, false); }
  // Whether steps take so much more or less since a step was asked for that it should be again; and
  // whether it seems so for a few steps only, among which none should be asked for.
  bool changed() const { return changed_ >= kSettled; }
  bool is_changing() const { return changed_ > 0 && changed_ < kSettled; }

  // What was measured before the first step, to begin with.
  void begin_with(std::span<const StepCost> costs);

  // Whether `of` means anything yet.
  bool known() const { return pace_ > 0; }

  // Whether what the drafter takes is known from a few drafts: its first ones may be long, as
  // memory is new to them.
  bool knows_drafting() const { return level_.seen >= kFirst; }

  // A step of `rows` rows in which some sequence has `depth` drafts, in nanoseconds.
  double of(double rows, uint32_t depth) const;
  // Of that, what the drafter takes.
  double drafting(uint32_t depth) const { return resting_.value + level_.value * depth; }

 private:
  static constexpr double kShapePace = 0.003;
  static constexpr double kPacePace = 0.1;
  static constexpr double kLevelPace = 0.03;
  // How far steps lie from what was expected is followed at this pace; at least a fiftieth.
  static constexpr double kNoisePace = 0.03;
  static constexpr double kLocalPace = 0.5;
  static constexpr double kChanged = 0.5;
  static constexpr uint32_t kSettled = 5;  // steps after which the last few are all new
  static constexpr double kLeastNoise = 0.02 * 0.02;
  // How far the shape of a number of rows may be off to begin with, squared; and what each step
  // that was asked for adds to that, since nothing stays as it is for ever.
  static constexpr double kFirstDoubt = 0.02;
  static constexpr double kMoreDoubt = 3e-5;
  static constexpr double kSurprise = 3.0;  // standard deviations
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
    double doubt = kFirstDoubt;
    // The step that was of so many rows last, counted from 1; or, if it was asked for, the step
    // that it was held against.
    uint64_t last = 0;
  };

  // After a step that was not asked for, at such a pace.
  void follow(double log_pace);
  // After a step that was asked for.
  void learn_asked(uint32_t index, double time);
  // The machine is another one than was known, as so many rows show, whose shape was `before`.
  // Shapes that were seen earlier than theirs go along: the last steps' stays, and the others'
  // distances from it grow or shrink alike, or with the rows where those two seemed to take the
  // same. More rows never take less.
  void adapt_others(uint32_t index, double before);

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
  double local_ = 0;     // log of the pace of the last few steps
  double compared_ = 0;  // and of those before the last that was asked for
  double noise_ = 0.25;  // how far steps lie from what was expected, squared
  uint32_t steps_ = 0;
  uint32_t changed_ = 0;    // steps in a row that were far from those before
  uint64_t count_ = 0;      // of all steps
  uint32_t usual_ = 0;      // the entry of the last step that was not asked for
  uint32_t surprised_ = 0;  // the entry of a surprise that came once
  double surprise_ = 0;
  bool doubts_ = false, cheaper_ = false;
  uint32_t measured_rows_ = 0;  // the most that were measured before the first step
  Mean resting_;
  Mean level_;
};

}  // namespace tenon::sdk
