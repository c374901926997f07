// What the launches of this folder have in common.
#pragma once

#include <tenon/cuda/machine.h>

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

}  // namespace tenon::cuda
