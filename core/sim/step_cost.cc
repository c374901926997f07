#include "core/sim/step_cost.h"

#include <algorithm>
#include <cmath>

#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon::sim {
namespace {

// Routers and the like are kept in a type of their own, and are small.
constexpr double kSmall = 0.02;

const ProductRate& rate_of(const Machine& machine, const std::string& format) {
  const ProductRate* found = machine.find(format);
  return found != nullptr ? *found : machine.products.front();
}

}  // namespace

double machine_turn(const Machine& machine) {
  return machine.attention_operations * machine.prompt_share /
         (machine.bandwidth * machine.decode_share);
}

Status check_formats(const Machine& machine, const StepModel& model) {
  for (const StepModel::FormatShare& each : model.formats()) {
    if (machine.find(each.format) != nullptr || each.share < kSmall) continue;
    std::vector<std::string> known;
    for (const ProductRate& rate : machine.products) known.push_back(rate.format);
    return invalid_argument("machine " + in_quotes(machine.name) +
                            " has no rate for weights of format " + in_quotes(each.format) +
                            "; it has " + join_and(known) +
                            ": add a [[product]] to its file, or simulate a model of one of those");
  }
  return {};
}

double product_limit_seconds(const Machine& machine, const ProductRate& rate,
                             const ProductNeed& need) {
  return std::max(need.bytes / machine.bandwidth, 2 * need.elements * need.rows / rate.operations);
}

int64_t step_ns(const Machine& machine, const StepNeeds& needs) {
  double seconds = needs.decode_bytes / (machine.bandwidth * machine.decode_share) +
                   needs.prompt_operations / (machine.attention_operations * machine.prompt_share);
  for (const ProductNeed& need : needs.products) {
    const ProductRate& rate = rate_of(machine, need.format);
    seconds += product_limit_seconds(machine, rate, need) / rate.share_at(need.rows);
  }
  const double overhead = machine.step_ns + machine.layer_ns * needs.layers +
                          machine.sequence_ns * needs.sequences + machine.logits_ns * needs.logits;
  return std::max<int64_t>(1, std::llround(seconds * 1e9 + overhead));
}

}  // namespace tenon::sim
