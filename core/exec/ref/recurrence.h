// Recurrences as docs/futures.md defines them under "State kinds", spelled out row by row. What a
// state holds is rounded to f32 behind every row, so that it does not matter where steps end.
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

  // x [rows, channels] → silu(convolution of it); writes that part of the states.
  void convolve(const float* x, float* out) const;
  // Mamba: c [rows, inner], step [rows, inner], bc [rows, 2·state] → y [rows, inner].
  void scan_channels(const float* c, const float* step, const float* bc, float* y) const;
  // Mamba-2: c [rows, channels], step [rows, heads] → y [rows, inner].
  void scan_heads(const float* c, const float* step, float* y) const;
  // Gated delta rule: c [rows, channels], step [rows, steps], beta [rows, heads] → y [rows, inner].
  void scan_delta(const float* c, const float* step, const float* beta, float* y) const;

 private:
  // Numbers [first, first + count) of each sequence's state go through all of its rows: calls
  // advance(row, values), and stores them behind the rows that the table names.
  template <typename Advance>
  void each_row(size_t first, size_t count, Advance advance) const;
  float* slot(BlockId block) const;
  double log_decay(const float* step, size_t row, size_t head, size_t i) const;
};

// y · silu(gate), and its RMS norm in groups where the plan has one, after that or before, in
// place: [rows, inner].
void gate(const RecurrentPlan& plan, std::span<const float> scale, const float* gate, uint32_t rows,
          float* y);

}  // namespace tenon::ref
