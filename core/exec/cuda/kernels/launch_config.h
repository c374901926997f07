// What the launches of this folder have in common.
#pragma once

#include <tenon/cuda/machine.h>

#include <cstdint>

namespace tenon::cuda {

// Every kernel waits for earlier ones before it touches memory, but for weights, which
// some products ask for before; so it may begin before those in front of it are done.
inline LaunchConfig overlapping_config(const char* name, void* stream) {
  LaunchConfig config;
  config.name = name;
  config.overlaps = true;
  config.stream = stream;
  return config;
}

// Whether an array's rows lie so that 4 elements can be moved at once.
template <typename T>
bool in_quads(const T* at, int stride) {
  return reinterpret_cast<uintptr_t>(at) % (4 * sizeof(T)) == 0 && stride % 4 == 0;
}

}  // namespace tenon::cuda
