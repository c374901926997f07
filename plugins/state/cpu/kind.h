// A kind of recurrence as this plugin runs it. Each is one file, NAME_kind.cc, and a line in
// kinds.def.
#pragma once

#include <tenon/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plugins/state/cpu/layer.h"
#include "plugins/state/cpu/walk.h"

namespace tenon::state_cpu {

struct Kind {
  std::string_view name;    // as layers ask for it
  uint32_t parameters = 0;  // that it takes
  uint32_t phases = 1;      // of a call
  bool keeps_state = true;  // after the rows of a convolution
  // Sets the layer's sizes, which are checked afterwards, and how much it keeps.
  void (*read_dims)(const uint32_t* dims, Layer& layer) = nullptr;
  std::string (*fault)(const Layer& layer) = nullptr;  // of sizes; null: none besides the usual
  void (*read_parameters)(std::span<const float* const> values, Layer& layer) = nullptr;
  // Numbers of the workspace: that all slices share, for so many rows, and of each slice's own, for
  // a state that no slot keeps, or a block of one. Null: none.
  uint64_t (*shared_floats)(const Layer& layer, uint64_t rows) = nullptr;
  uint64_t (*own_floats)(const Layer& layer, const KernelSet& kernels) = nullptr;
  void (*run)(const Task& task, uint32_t phase, Slice slice) = nullptr;
};

#define TENON_STATE_KIND(name) extern const Kind name;
#include "plugins/state/cpu/kinds.def"
#undef TENON_STATE_KIND

// Calls run(part, item) for items [0, count) of each sequence, which slices take in turn.
template <typename Run>
void share_items(const Task& task, Slice slice, uint32_t count, Run run) {
  uint32_t turn = 0;
  for (const Part& part : task.plan.parts()) {
    for (uint32_t item = 0; item < count; ++item, ++turn) {
      if (turn % slice.count == slice.index) run(part, item);
    }
  }
}

// log(1 + eˣ), without overflow.
inline float softplus(float x) {
  return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x)));
}
inline float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

}  // namespace tenon::state_cpu
