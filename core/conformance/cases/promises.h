// Which sentence of the headers a finding is against: one case, such as a scheduler's random views,
// sees several promises broken, and its own sentence is only the likeliest.
#pragma once

#include <span>
#include <string_view>

#include "core/conformance/battery.h"

namespace tenon {

struct WaysToBreak {
  std::string_view interface;  // "scheduler"; empty = of every interface
  std::string_view words;      // in what a finding says, which the worlds and core/contract write
  Promise promise;
};
std::span<const WaysToBreak> ways_to_break();

// Of a plugin of `interface`; empty where the finding's case says it best.
Promise promise_against(std::string_view interface, std::string_view what);

}  // namespace tenon
