#include "core/sim/pace.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/sim/step_cost.h"

namespace tenon::sim {
namespace {

class GeometricMean {
 public:
  void add(double value) {
    sum_ += std::log(value);
    ++count_;
  }
  double value() const { return count_ == 0 ? 1 : std::exp(sum_ / count_); }

 private:
  double sum_ = 0, count_ = 0;
};

}  // namespace

Result<Pace> pace_of(const Machine& machine, std::span<const MeasuredStep> steps) {
  if (steps.empty()) return invalid_argument("no steps were measured");
  GeometricMean all, rows, prompts;
  Pace out{.least = HUGE_VAL, .most = 0, .steps = static_cast<uint32_t>(steps.size())};
  for (const MeasuredStep& step : steps) {
    TENON_RETURN_IF_ERROR(check_formats(machine, *step.model));
    const StepNeeds needs =
        step.model->needs_of(step.sequences, step.logits_rows, machine_turn(machine));
    const double ratio = step.seconds / step_time(machine, needs, 1).seconds();
    const bool of_rows = std::ranges::all_of(
        step.sequences, [](const SequenceLoad& sequence) { return sequence.rows == 1; });
    all.add(ratio);
    (of_rows ? rows : prompts).add(ratio);
    out.least = std::min(out.least, ratio);
    out.most = std::max(out.most, ratio);
  }
  out.mean = all.value();
  out.rows = rows.value();
  out.prompts = prompts.value();
  return out;
}

Machine at_pace(Machine machine, double pace) {
  machine.bandwidth /= pace;
  machine.link_bandwidth /= pace;
  for (double& bandwidth : machine.cached.bandwidths) bandwidth /= pace;
  for (ProductRate& rate : machine.products) rate.operations /= pace;
  machine.attention_operations /= pace;
  for (double* overhead : {&machine.step_ns, &machine.layer_ns, &machine.memory_layer_ns,
                           &machine.sequence_ns, &machine.logits_ns}) {
    *overhead *= pace;
  }
  char text[64];
  std::snprintf(text, sizeof(text), "; at a pace of %.3f times these times", pace);
  machine.source += text;
  return machine;
}

}  // namespace tenon::sim
