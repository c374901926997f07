// What kernels of recurrences and their launches share: a step's rows and states as kernels see
// them.
#pragma once

#include <tenon/cuda/machine.h>

#include <cstdint>
#include <type_traits>

#include "core/exec/cuda/kernels/elements.cuh"
#include "core/exec/cuda/kernels/launch_config.h"
#include "core/exec/cuda/kernels/launch_recurrence.h"
#include "core/exec/cuda/kernels/row_functions.cuh"

namespace tenon::cuda {

struct StateStepsView {
  Global<const StateSequence> sequences;
  Global<const uint32_t> row_sequence;
  Global<const int32_t> to;
  Global<float> states;
  int64_t slot_floats;

  TENON_DEVICE Global<float> slot(int32_t index) const { return states + index * slot_floats; }
};

// log(1 + eˣ), without overflow.
TENON_DEVICE float softplus(float x) {
  return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

inline LaunchConfig config_of(const char* name, uint64_t blocks, void* stream) {
  LaunchConfig config = overlapping_config(name, stream);
  config.grid.x = static_cast<uint32_t>(blocks);
  config.block.x = kRowThreads;
  return config;
}

inline StateStepsView view_of(const StateSteps& steps) {
  StateStepsView view;
  view.sequences = Global<const StateSequence>(steps.sequences);
  view.row_sequence = Global<const uint32_t>(steps.row_sequence);
  view.to = Global<const int32_t>(steps.to);
  view.states = Global<float>(steps.states);
  view.slot_floats = steps.slot_floats;
  return view;
}

inline uint64_t parts_of(int count, int each) {
  return static_cast<uint64_t>((count + each - 1) / each);
}

// Calls put with the numbers that a lane keeps of a state: the fewest that there is a kernel for.
template <typename Put>
int with_kept(int state, int lanes, Put put) {
  const int kept = (state + lanes - 1) / lanes;
  if (kept <= 1) return put(std::integral_constant<int, 1>());
  if (kept <= 2) return put(std::integral_constant<int, 2>());
  if (kept <= 4) return put(std::integral_constant<int, 4>());
  return put(std::integral_constant<int, 8>());
}

}  // namespace tenon::cuda
