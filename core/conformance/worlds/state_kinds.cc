#include "core/conformance/worlds/state_kinds.h"

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

std::vector<StateKind> all_kinds() {
  std::vector<StateKind> all;
  for (const Block* block : layer_blocks()) {
    if (block->recurrence == nullptr) continue;
    for (const RecurrenceExample& example : block->recurrence->examples) {
      all.emplace_back(*block->recurrence, example);
    }
  }
  return all;
}

}  // namespace

StateKind::StateKind(const RecurrenceKind& of, const RecurrenceExample& example)
    : kind(of),
      plan(example.plan),
      what(example.what),
      channels(plan.channels()),
      out(plan.inner()),
      twice(!of.later_inputs.empty()),
      floats(plan.state_bytes() / sizeof(float)) {
  const auto widths = kind.input_widths(plan);
  inputs.assign(widths.begin(), widths.begin() + kind.inputs.size() + kind.later_inputs.size());
  for (const RecurrentParameter& parameter : kind.parameters(plan, {})) {
    uint64_t& count = parameters.emplace_back(1);
    for (const uint64_t extent : parameter.extents) count *= extent;
  }
}

void StateKind::settle(Arrays& numbers) const {
  const std::vector<RecurrentParameter> own = kind.parameters(plan, {});
  for (size_t i = 0; i < own.size(); ++i) {
    if (!own[i].own.empty()) numbers[i] = own[i].own;
  }
  if (kind.settle != nullptr) kind.settle(numbers);
}

std::vector<float> StateKind::rows(const Arrays& numbers, const Arrays& entering,
                                   uint32_t count) const {
  std::vector<float> state(floats, 0.0f), convolved(channels), y(uint64_t{count} * out);
  RecurrentRow row;
  row.dims = kind.dims(plan);
  row.parameters = numbers;
  const uint64_t kept = uint64_t{plan.width - 1} * channels;
  for (uint32_t t = 0; t < count; ++t) {
    std::vector<const float*> of_row;
    for (size_t i = 0; i < inputs.size(); ++i) {
      of_row.push_back(&entering[i][uint64_t{t} * inputs[i]]);
    }
    row.inputs = of_row;
    row.state = state.data();
    row.out = &y[uint64_t{t} * out];
    if (twice) {
      row.inputs = std::span(of_row).first(1);
      row.out = convolved.data();
      kind.advance(row);
      of_row[0] = convolved.data();
      row.inputs = of_row;
      row.state += kept;
      row.out = &y[uint64_t{t} * out];
    }
    kind.advance(row);
  }
  return y;
}

std::span<const StateKind> state_kinds() {
  static const std::vector<StateKind> kKinds = all_kinds();
  return kKinds;
}

}  // namespace tenon
