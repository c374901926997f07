// `tenon calibrate --against`: whether a machine file still says how fast this machine is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/result.h"

namespace tenon {

struct AgainstFlags {
  std::string machine;         // its file, or a name of configs/machines
  std::string out;             // where to write it at the pace of now; empty: nowhere
  std::optional<double> pace;  // null: it is measured
  uint32_t threads = 1;
  bool json = false;
};

// Times a few steps of two models, one that stays in caches and one that does not, prints how many
// times as long they take as the file says, and writes the file at that pace, or at `pace`. Errors:
// those of the file, of the models and of their steps.
Status pace_against(const AgainstFlags& flags);

}  // namespace tenon
