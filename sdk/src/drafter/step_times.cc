#include <tenon/sdk/drafter/step_times.h>

#include <algorithm>
#include <cmath>

namespace tenon::sdk {
namespace {

// How far a time lies from what was expected, as a logarithm. A single one may have been held up by
// something else.
double surprise(double time, double expected) {
  constexpr double kMost = 1.1;  // three times as much
  return std::clamp(std::log(time / expected), -kMost, kMost);
}

// What two surprises have in common.
double common(double a, double b) {
  if (a * b <= 0) return 0.0;
  return std::abs(a) < std::abs(b) ? a : b;
}

}  // namespace

void StepTimes::learn(const DraftStepCost& cost, uint32_t depth, bool usual, bool asked) {
  const StepCost& step = cost.step;
  const auto time = static_cast<double>(step.duration_ns - cost.drafter_ns);
  if (step.rows == 0 || step.rows != step.logits_rows || time <= 0) return;
  // What a drafter does with prompts is no part of what it always does.
  if (usual) learn_drafter(static_cast<double>(cost.drafter_ns), depth);
  if (pace_ == 0) pace_ = time;
  const uint32_t index = index_of(step.rows);
  Entry& entry = entries_[index];
  if (entry.seen == 0) {
    entry.shape = shape_of(step.rows);
    entry.seen = step.rows <= measured_rows_ ? kMeasured : 0;
    if (entry.shape <= 0) entry.shape = time / pace_;
  }
  ++count_;
  if (asked && entry.seen > 0 && steps_ > 0) return learn_asked(index, time);
  usual_ = index;
  entry.last = count_;
  // Both move by parts of the same number, and so neither drifts while the other does not move.
  const double off = surprise(time, pace_ * entry.shape);
  follow(std::log(time / entry.shape));
  // A number of rows that was never seen says nothing of the machine's pace; the first steps after
  // what was measured beforehand say all of it.
  const double first = measured_rows_ > 0 ? 1.0 / (1.0 + steps_) : 0.0;
  const double pace = entry.seen == 0 ? 0.0 : std::max(kPacePace, first);
  pace_ *= std::exp(pace * off);
  entry.shape *= std::exp(std::max(kShapePace, 1.0 / (1.0 + entry.seen)) * (1 - pace) * off);
  // The first steps of all tell the pace, and are no surprise. Afterwards a single one may be.
  const double most = kSurprise * kSurprise * std::max(noise_, kLeastNoise);
  if (steps_ >= 2) {
    noise_ += std::max(kNoisePace, 1.0 / steps_) * (std::min(off * off, most) - noise_);
  }
  if (entry.seen < 1000) ++entry.seen;
  if (steps_ < 1000) ++steps_;
}

void StepTimes::follow(double log_pace) {
  local_ += (steps_ == 0 ? 1.0 : kLocalPace) * (log_pace - local_);
  if (steps_ == 0) compared_ = local_;
  const double far = std::max(kChanged, kSurprise * std::sqrt(noise_));
  changed_ = std::abs(local_ - compared_) > far ? changed_ + 1 : 0;
}

// The less the steps of this machine differ among themselves, the more a single one says. It is
// held against the steps just before it, since the machine may be changing.
void StepTimes::learn_asked(uint32_t index, double time) {
  Entry& entry = entries_[index];
  const double noise = std::max(noise_, kLeastNoise);
  const bool again = surprised_ == index;
  double off = std::log(time / entry.shape) - local_;
  compared_ = local_;
  changed_ = 0;
  cheaper_ = false;
  if (!again && surprised_ == 0 && off * off > kSurprise * kSurprise * (entry.doubt + noise)) {
    surprised_ = index;
    surprise_ = off;
    doubts_ = true;
    return;
  }
  surprised_ = 0;
  if (again) {
    off = common(off, surprise_);
    entry.doubt = std::max(entry.doubt, off * off);
    cheaper_ = off < 0;
  }
  const double part = std::max(entry.doubt / (entry.doubt + noise), 1.0 / (1.0 + entry.seen));
  const double before = entry.shape;
  entry.doubt = (1 - part) * entry.doubt + kMoreDoubt;
  entry.shape *= std::exp(part * off);
  if (again && index != usual_) adapt_others(index, before);
  entry.last = entries_[usual_].last;
  if (entry.seen < 1000) ++entry.seen;
}

void StepTimes::adapt_others(uint32_t index, double before) {
  constexpr double kApart = 0.02, kMost = 20.0;
  const Entry& found = entries_[index];
  const double fixed = entries_[usual_].shape;
  const double apart = (before / fixed - 1) * (index < usual_ ? -1 : 1);
  const double stretch = std::clamp((found.shape - fixed) / (before - fixed), 1 / kMost, kMost);
  const double slope = (fixed - found.shape) / (rows_of(usual_) - rows_of(index));
  for (uint32_t other = 1; other < kEntries; ++other) {
    Entry& entry = entries_[other];
    if (entry.seen == 0 || other == index) continue;
    if (other != usual_ && entry.last <= found.last) {
      entry.shape = apart > kApart ? fixed + stretch * (entry.shape - fixed)
                                   : fixed + slope * (rows_of(other) - rows_of(usual_));
    }
    entry.shape = other < index ? std::clamp(entry.shape, found.shape / kMost, found.shape)
                                : std::max(entry.shape, found.shape);
  }
}

void StepTimes::begin_with(std::span<const StepCost> costs) {
  for (const StepCost& cost : costs) {
    const auto time = static_cast<double>(cost.duration_ns);
    if (cost.rows == 0 || time <= 0) continue;
    if (pace_ == 0) pace_ = time;
    Entry& entry = entries_[index_of(cost.rows)];
    entry.shape = time / pace_;
    entry.seen = kMeasured;
    measured_rows_ = std::max(measured_rows_, cost.rows);
  }
  // What took longer than more rows was held up.
  double least = 0;
  for (uint32_t index = kEntries; index-- > 0;) {
    Entry& entry = entries_[index];
    if (entry.seen == 0) continue;
    if (least > 0) entry.shape = std::min(entry.shape, least);
    least = entry.shape;
  }
}

double StepTimes::of(double rows, uint32_t depth) const {
  return pace_ * shape_of(rows) + drafting(depth);
}

uint32_t StepTimes::index_of(uint32_t rows) {
  if (rows <= kExact) return rows;
  return std::min(kExact + (rows - kExact + kCoarse - 1) / kCoarse, kEntries - 1);
}

double StepTimes::rows_of(uint32_t index) {
  return index <= kExact ? index : kExact + double{kCoarse} * (index - kExact);
}

double StepTimes::shape_of(double rows) const {
  const uint32_t at = index_of(static_cast<uint32_t>(rows));
  if (entries_[at].seen > 0) return entries_[at].shape;
  uint32_t below = at, above = at, lowest = 0;
  while (below > 0 && entries_[below].seen == 0) --below;
  while (above + 1 < kEntries && entries_[above].seen == 0) ++above;
  while (lowest + 1 < kEntries && entries_[lowest].seen == 0) ++lowest;
  if (entries_[lowest].seen == 0) return 0;
  const Entry& high = entries_[above];
  if (below == 0) return high.shape * rows / rows_of(above);
  const Entry& low = entries_[below];
  double slope = low.shape / (kFreeRows + rows_of(below));
  if (high.seen > 0) {
    slope = (high.shape - low.shape) / (rows_of(above) - rows_of(below));
  } else if (lowest < below) {
    slope =
        std::max(slope, (low.shape - entries_[lowest].shape) / (rows_of(below) - rows_of(lowest)));
  }
  return low.shape + slope * (rows - rows_of(below));
}

void StepTimes::learn_drafter(double time, uint32_t depth) {
  if (depth == 0) {
    resting_.learn(time);
  } else {
    level_.learn(std::max(time - resting_.value, 0.1 * time) / depth);
  }
}

// The first times of all may be long, as memory is new to them.
void StepTimes::Mean::learn(double time) {
  time = std::max(time, 1.0);
  if (seen == 0) value = time;
  const double off = surprise(time, value);
  value *=
      std::exp(std::max(kLevelPace, seen < kFirst && off < 0 ? 0.5 : 1.0 / (1.0 + seen)) * off);
  if (seen < 1000) ++seen;
}

}  // namespace tenon::sdk
