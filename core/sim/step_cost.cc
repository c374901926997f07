#include "core/sim/step_cost.h"

#include <algorithm>
#include <cmath>

#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon::sim {
namespace {

// Routers and the like are kept in a type of their own, and are small.
constexpr double kSmall = 0.02;

const ProductRate& rate_of(const Machine& machine, std::string_view format) {
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

double read_bytes(const StepNeeds& needs) {
  double bytes = needs.decode_bytes;
  for (const ProductNeed& need : needs.products) bytes += need.bytes;
  return bytes;
}

double product_limit_seconds(double bandwidth, const ProductRate& rate, const ProductNeed& need) {
  return std::max(need.bytes / bandwidth, 2 * need.elements * need.rows / rate.operations);
}

StepTime& StepTime::operator+=(const StepTime& other) {
  reading += other.reading;
  computing += other.computing;
  links += other.links;
  overheads += other.overheads;
  return *this;
}

double sum_seconds(const JoiningLink& link, uint32_t ranks, double bytes) {
  if (ranks <= 1) return 0;
  const double rounds = std::ceil(std::log2(ranks)), latency = link.latency_ns * 1e-9;
  const double doubling = rounds * (latency + bytes / link.bandwidth);
  const double scattering = 2 * (rounds * latency + (ranks - 1.0) / ranks * bytes / link.bandwidth);
  return std::min(doubling, scattering);
}

StepTime step_time(const Machine& machine, const StepNeeds& needs, uint32_t ranks) {
  const double bandwidth = machine.bandwidth_at(read_bytes(needs));
  StepTime time;
  time.reading = needs.decode_bytes / (bandwidth * machine.decode_share);
  time.computing = needs.prompt_operations / (machine.attention_operations * machine.prompt_share);
  for (const ProductNeed& need : needs.products) {
    const ProductRate& rate = rate_of(machine, need.format);
    const double read = need.bytes / bandwidth;
    const double compute = 2 * need.elements * need.rows / rate.operations;
    (read >= compute ? time.reading : time.computing) +=
        std::max(read, compute) / rate.share_at(need.rows);
  }
  time.overheads =
      1e-9 * (machine.step_ns + machine.layer_ns * needs.layers +
              machine.sequence_ns * needs.sequences + machine.logits_ns * needs.logits);
  if (ranks > 1) {
    time.links = needs.sums * sum_seconds(machine.joined, ranks, needs.summed_bytes) +
                 std::ceil(std::log2(ranks)) * machine.joined.latency_ns * 1e-9 +
                 needs.gathered_bytes / machine.joined.bandwidth;
  }
  return time;
}

int64_t step_ns(const Machine& machine, const StepNeeds& needs, uint32_t ranks) {
  return std::max<int64_t>(1, std::llround(step_time(machine, needs, ranks).seconds() * 1e9));
}

}  // namespace tenon::sim
