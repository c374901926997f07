#include <tenon/sdk/drafter/step_times.h>

#include <algorithm>

namespace tenon::sdk {

void StepTimes::learn(const DraftStepCost& cost, uint32_t depth, bool usual) {
  const StepCost& step = cost.step;
  const auto time = static_cast<double>(step.duration_ns - cost.drafter_ns);
  if (usual) learn_drafter(static_cast<double>(cost.drafter_ns), depth);
  if (step.rows == 0 || step.rows != step.logits_rows || time <= 0) return;
  Entry& entry = entries_[index_of(step.rows)];
  if (pace_ == 0) pace_ = time;
  const double relative = time / pace_;
  const double expected = entry.seen > 0 ? entry.shape : shape_of(step.rows);
  // A single step may have been held up by something else.
  const double believed = expected > 0 ? std::min(relative, 3 * expected) : relative;
  entry.shape += std::max(kShapePace, 1.0 / (1.0 + entry.seen)) * (believed - entry.shape);
  if (entry.seen < 1000) ++entry.seen;
  pace_ *= 1 + kPacePace * (believed / entry.shape - 1);
}

void StepTimes::begin_with(std::span<const StepCost> costs) {
  for (const StepCost& cost : costs) {
    const auto time = static_cast<double>(cost.duration_ns);
    if (cost.rows == 0 || time <= 0) continue;
    if (pace_ == 0) pace_ = time;
    Entry& entry = entries_[index_of(cost.rows)];
    entry.shape = time / pace_;
    entry.seen = 1;
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
    follow(resting_, time);
  } else {
    follow(level_, std::max(time - resting_, 0.0) / depth);
  }
}

void StepTimes::follow(double& value, double seen) {
  if (value == 0) {
    value = seen;
  } else {
    value += seen < value ? 0.5 * (seen - value) : 0.1 * (std::min(seen, 2 * value) - value);
  }
}

}  // namespace tenon::sdk
