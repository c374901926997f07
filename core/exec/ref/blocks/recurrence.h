// Recurrences row by row, by the formulas of their blocks (RecurrenceKind::advance).
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>
#include <tenon/state.h>

#include <span>
#include <vector>

#include "core/model/model.h"

namespace tenon::ref {

struct Recurrence {
  const ModelShape& shape;
  std::span<const StateStorage> storage;  // [group_count]
  const BatchView& batch;
  const RecurrentPlan& plan;
  const LayerWeights& weights;
  LayerId layer = 0;

  // One call of a state kernel: its inputs, each [rows, …] → y [rows, inner].
  void run(std::span<const float* const> inputs, float* y) const;

 private:
  // Numbers [first, first + count) of each sequence's state go through all of its rows. Calls
  // advance(row, values), and stores them after the rows that the table names.
  template <typename Advance>
  void each_row(size_t first, size_t count, Advance advance) const;
  float* slot(BlockId block) const;
};

// What the projections made, times the plan's factors, in place: xbc [rows, channels], steps [rows,
// heads], gate [rows, inner].
void scale_inputs(const RecurrentPlan& plan, std::span<float> xbc, std::span<float> steps,
                  std::span<float> gate);

// y · silu(gate), or σ of it, and its norm in groups where the plan has one, after that or
// before, in place: [rows, inner].
void gate(const RecurrentPlan& plan, std::span<const float> scale, const float* gate, uint32_t rows,
          float* y);

}  // namespace tenon::ref
