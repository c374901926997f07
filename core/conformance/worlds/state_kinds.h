// The kinds of recurrences that state kernels are asked to run (docs/futures.md, "State kinds"), in
// the small odd sizes of their blocks' examples, with the blocks' formulas.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/model/blocks/recurrence.h"

namespace tenon {

struct StateKind {
  using Arrays = std::vector<std::vector<float>>;

  StateKind(const RecurrenceKind& kind, const RecurrenceExample& example);

  const RecurrenceKind& kind;
  const RecurrentPlan& plan;
  std::string_view what;         // for messages: "mamba"
  uint32_t channels = 0;         // of the convolution
  uint32_t out = 0;              // elements of a row
  std::vector<uint32_t> inputs;  // elements of a row of each
  bool twice = false;  // a layer is called with the first input, then with what came of it and the
                       // others
  std::vector<uint64_t> parameters;  // elements of each
  uint64_t floats = 0;               // of a state

  // Turns numbers in [-1, 1] into what the kind's parameters may be.
  void settle(Arrays& numbers) const;
  // y [rows, out] from nothing.
  std::vector<float> rows(const Arrays& numbers, const Arrays& entering, uint32_t count) const;
};

std::span<const StateKind> state_kinds();

}  // namespace tenon
