#include <tenon/sdk/scheduler/step_budget.h>

#include <algorithm>
#include <bit>

namespace tenon::sdk {

void CostCurve::add(uint32_t size, int64_t duration_ns) {
  ++added_;
  Point& point = points_[bucket(size)];
  point.samples[point.count++ % kSamples] = {size, duration_ns};
  point.last = added_;
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(point.count, kSamples));
  std::array<double, kSamples> sizes, durations;
  for (uint32_t i = 0; i < count; ++i) {
    sizes[i] = point.samples[i].size;
    durations[i] = static_cast<double>(point.samples[i].duration_ns);
  }
  point.size = median(sizes, count);
  point.duration_ns = median(durations, count);
  for (Point& other : points_) {
    if (added_ > other.last + kForget) other.count = 0;
  }
}

double CostCurve::largest() const {
  double size = 0.0;
  for (const Point& point : points_) size = point.count > 0 ? point.size : size;
  return size;
}

double CostCurve::duration_ns(double size, Anchor from) const {
  double slope = 0.0;
  for (const Point& point : points_) {
    if (point.count == 0 || point.size <= from.size || size <= from.size) continue;
    const double cost = std::max(point.duration_ns, from.duration_ns);
    slope = (cost - from.duration_ns) / (point.size - from.size);
    if (size <= point.size) break;
    from = {point.size, cost};
  }
  return from.duration_ns + slope * std::max(size - from.size, 0.0);
}

double CostCurve::duration_ns(double size) const {
  for (const Point& point : points_) {
    if (point.count > 0) return duration_ns(size, {point.size, point.duration_ns});
  }
  return 0.0;
}

double CostCurve::median(std::array<double, kSamples>& values, uint32_t count) {
  const auto middle = values.begin() + (count - 1) / 2;
  std::nth_element(values.begin(), middle, values.begin() + count);
  return *middle;
}

void StepBudget::observe(const StepCost& cost) {
  if (cost.step_id <= last_step_) return;
  last_step_ = cost.step_id;
  const bool with_prompts = cost.rows > cost.logits_rows;
  if (with_prompts) {
    with_prompts_.add(cost.rows, cost.duration_ns);
  } else {
    decoding_.add(cost.sequences, cost.duration_ns);
    last_alone_ = std::max(last_alone_, cost.step_id);
  }
}

bool StepBudget::ask_for_decoding_alone(uint64_t step_id, uint32_t decoding, uint32_t most) {
  if (decoding == 0) return false;
  const bool least = rows(decoding, most) <= decoding + kLeastPromptRows;
  if (last_alone_ > 0 && step_id <= last_alone_ + (least ? kAloneAtLeast : kAlone)) return false;
  last_alone_ = step_id;
  return true;
}

uint32_t StepBudget::rows(uint32_t decoding, uint32_t most) const {
  if (decoding == 0) return most;
  const uint64_t untried = 2 * static_cast<uint64_t>(with_prompts_.largest());
  uint64_t highest = std::max<uint64_t>(untried, uint64_t{decoding} + kFirstPromptRows);
  highest = std::min<uint64_t>(highest, most);
  if (!decoding_.empty()) highest = affordable(decoding, highest);
  if (highest < most) highest = decoding + (highest - decoding) / kGrain * kGrain;
  return static_cast<uint32_t>(std::min<uint64_t>(highest, most));
}

uint64_t StepBudget::affordable(uint32_t decoding, uint64_t highest) const {
  const CostCurve::Anchor alone{static_cast<double>(decoding), decoding_.duration_ns(decoding)};
  uint64_t rows = uint64_t{decoding} + kLeastPromptRows;
  while (rows < highest) {
    const uint64_t middle = (rows + highest + 1) / 2;
    const double cost = with_prompts_.duration_ns(static_cast<double>(middle), alone);
    if (cost <= target_ * alone.duration_ns) {
      rows = middle;
    } else {
      highest = middle - 1;
    }
  }
  return rows;
}

}  // namespace tenon::sdk
